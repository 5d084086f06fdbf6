"""Several sets of inputs and outputs of one workload: every launch finds other values at other addresses than the one before."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from flashcore_ci.worker import tensors
from flashcore_ci.worker.job import Work
from flashcore_ci.worker.redzones import Fences


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """Inputs from their seed, outputs that the subject may fill but not exchange, and what its first launch gave."""

    seed: int
    inputs: Any
    outputs: Any
    first: dict[str, Any]

    def differs(self) -> Any:
        """Whether any bit of the outputs is not the first launch's, as a tensor: asking does not wait for the device."""
        return tensors.differ(self.first, self.outputs)


class Sets:
    """The sets of one workload, and the fences around all of them."""

    def __init__(self, subject: Any, work: Work) -> None:
        self.subject = subject
        self.work = work
        self.fences = Fences()
        self.all: list[Set] = []
        self.bytes = 0

    def grow(self, count: int) -> None:
        """Have at least ``count`` sets; each new one is launched once."""
        import torch

        new = [self._launched(self.work.seed + number) for number in range(len(self.all), count)]
        torch.cuda.synchronize()
        for made in new:
            made.first.update({name: tensor.clone() for name, tensor in made.outputs.items()})
        self.all += new
        kept = [*self.all[0].inputs.values(), *self.all[0].outputs.values()]
        self.bytes = sum(value.numel() * value.element_size() for value in kept if isinstance(value, torch.Tensor))

    def _launched(self, seed: int) -> Set:
        inputs = MappingProxyType(self.fences.around(self.subject.inputs(self.work.params, seed)))
        outputs = MappingProxyType(self.fences.around(self.subject.outputs(inputs)))
        tensors.poison(outputs, 0)
        self.subject.run(inputs, outputs)
        return Set(seed=seed, inputs=inputs, outputs=outputs, first={})
