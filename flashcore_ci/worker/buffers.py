"""Give every timed launch other values and addresses than the one before."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from flashcore_ci.worker import tensors
from flashcore_ci.worker.job import Work
from flashcore_ci.worker.redzones import RedZones


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferSet:
    """Inputs from ``seed``, outputs, and those of the first launch."""

    seed: int
    inputs: Any
    outputs: Any
    first: dict[str, Any]

    def differs(self) -> Any:
        """Compare with the first launch's bits, without synchronizing."""
        return tensors.differ(self.first, self.outputs)


class BufferPool:
    """The buffer sets of one workload, inside red zones."""

    def __init__(self, subject: Any, work: Work) -> None:
        self.subject = subject
        self.work = work
        self.redzones = RedZones()
        self.sets: list[BufferSet] = []
        self.bytes_per_set = 0

    def grow(self, count: int) -> None:
        """Grow to ``count`` sets, and launch once on each new one."""
        import torch

        new = [self._make_set(self.work.seed + number) for number in range(len(self.sets), count)]
        torch.cuda.synchronize()
        for made in new:
            made.first.update({name: tensor.clone() for name, tensor in made.outputs.items()})
        self.sets += new
        values = [*self.sets[0].inputs.values(), *self.sets[0].outputs.values()]
        self.bytes_per_set = sum(value.numel() * value.element_size() for value in values if isinstance(value, torch.Tensor))

    def _make_set(self, seed: int) -> BufferSet:
        inputs = MappingProxyType(self.redzones.surround(self.subject.inputs(self.work.params, seed)))
        outputs = MappingProxyType(self.redzones.surround(self.subject.outputs(inputs)))
        tensors.poison(outputs, 0)
        self.subject.run(inputs, outputs)
        return BufferSet(seed=seed, inputs=inputs, outputs=outputs, first={})
