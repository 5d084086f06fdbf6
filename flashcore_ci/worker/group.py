"""Give a subject its part of a workload that several GPUs run, and carry its messages.

Each rank draws its own inputs from a seed that no other rank knows, and gets only its part. So a correct combined output proves that every
rank worked, and that messages arrived.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LATE_CYCLES = 6_000_000  # 3 ms, which no host takes to launch what reads the message


class RanksDisagreeError(Exception):
    """Ranks sent messages that do not fit together."""


@dataclass(slots=True, kw_only=True)
class Pending:
    """A message on its way. The current stream must ``wait`` before it reads."""

    wait: Callable[[], object]


@dataclass(slots=True, kw_only=True)
class Message:
    """One message as this rank saw it: ``sent`` and ``received``."""

    kind: str
    sent: Any
    received: Any

    @property
    def bytes(self) -> int:
        """Bytes that came from other ranks."""
        whole: int = self.sent.numel() * self.sent.element_size()
        parts: int = self.received.numel() // max(1, self.sent.numel())
        return whole * (parts - 1 if self.kind == "all_gather" else 1)


@dataclass(slots=True)
class Group:
    """The ranks of one workload, and how a subject's ``run`` reaches them. This one is alone."""

    rank: int = 0
    size: int = 1
    messages: list[Message] = field(default_factory=list)
    keeps: bool = False
    """Whether messages are copied, because the subject may use its buffers again."""

    def all_gather(self, out: Any, tensor: Any) -> Pending:
        """Send ``tensor`` to all ranks. ``out`` (ranks, ...) receives those of all, in their order."""
        return self._send("all_gather", out, tensor, (self.size, *tensor.shape))

    def pass_on(self, out: Any, tensor: Any) -> Pending:
        """Send ``tensor`` to the next rank. ``out`` receives that of the previous one."""
        return self._send("pass_on", out, tensor, tuple(tensor.shape))

    def _send(self, kind: str, out: Any, tensor: Any, shape: tuple[int, ...]) -> Pending:
        if tuple(out.shape) != shape or out.dtype != tensor.dtype or not (out.is_contiguous() and tensor.is_contiguous()):
            raise ValueError(f"{kind}: out must be contiguous, {shape} of {tensor.dtype}, is {tuple(out.shape)} of {out.dtype}")
        message = Message(kind=kind, sent=tensor, received=out)
        if self.size > 1:
            self.messages.append(message)
        pending = self.start(message)
        return Pending(wait=lambda: _keep(message, pending)) if self.keeps else pending

    def start(self, message: Message) -> Pending:
        """Start a message."""
        return Pending(wait=lambda: message.received.view_as(message.sent).copy_(message.sent))

    def listen(self, action: Callable[[], object]) -> list[Message]:
        """Run ``action``. Return its messages."""
        self.messages = []
        action()
        return self.messages

    def worst(self, values: Sequence[float]) -> list[float]:
        """Return the largest of each value over all ranks. NaN is larger than all numbers."""
        return [math.inf if math.isnan(value) else float(value) for value in values]

    def barrier(self) -> None:
        """Let the current stream wait until that of every rank is here."""

    def collect(self, tensor: Any) -> list[Any]:
        """Return this tensor of every rank. It is the worker's own message, and not counted."""
        return [tensor]

    def require_recorded(self) -> None:
        """Raise ValueError unless this rank sent what was recorded, if anything was."""


class LiveGroup(Group):
    """The ranks of one process group of torch.distributed."""

    compares = False
    """Whether all ranks must announce each message first, so that a wrong one cannot hang. Messages are late then."""

    def start(self, message: Message) -> Pending:
        """Start a message with torch.distributed."""
        import torch

        if not self.compares:
            return self._start_now(message)
        self.require_same(f"{message.kind} {tuple(message.sent.shape)} {message.sent.dtype}")
        if not torch.cuda.is_available():
            return self._start_now(message)
        late = torch.cuda.Stream()  # so that a subject that does not wait reads before the message is here, every time
        late.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(late):
            torch.cuda._sleep(LATE_CYCLES)  # noqa: SLF001 - as PyTorch's own tests do
            return self._start_now(message)

    def _start_now(self, message: Message) -> Pending:
        import torch.distributed as dist

        if message.kind == "all_gather":
            works = [dist.all_gather_into_tensor(message.received.flatten(), message.sent.flatten(), async_op=True)]
        else:
            following, previous = (self.rank + 1) % self.size, (self.rank - 1) % self.size
            operations = [dist.P2POp(dist.isend, message.sent, following), dist.P2POp(dist.irecv, message.received, previous)]
            works = dist.batch_isend_irecv(operations)

        return Pending(wait=lambda: [work.wait() for work in works])

    def require_same(self, text: str) -> None:
        """Raise RanksDisagreeError unless all ranks say the same."""
        import torch

        digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:7])
        ours = torch.tensor([digest], dtype=torch.int64)
        if any(int(other) != digest for other in self.collect(ours)):
            raise RanksDisagreeError(f"rank {self.rank} is at another step than the others: {text}")

    def worst(self, values: Sequence[float]) -> list[float]:
        """Return the largest of each value over all ranks."""
        import torch
        import torch.distributed as dist

        largest = torch.tensor(Group.worst(self, values), dtype=torch.float64)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        return list(largest.tolist())

    def barrier(self) -> None:
        """Reduce one number on the GPU: no rank's stream goes on before all have come."""
        import torch
        import torch.distributed as dist

        dist.all_reduce(torch.zeros(1, device="cuda" if torch.cuda.is_available() else "cpu"))

    def collect(self, tensor: Any) -> list[Any]:
        """Return this tensor of every rank."""
        import torch
        import torch.distributed as dist

        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor)
        return parts


class Playback(Group):
    """One rank alone. It receives recorded messages, and must send what was recorded."""

    def __init__(self, rank: int, size: int, recorded: Sequence[Message]) -> None:
        super().__init__(rank, size)
        self._recorded = recorded

    def start(self, message: Message) -> Pending:
        """Return the recorded message in the place of a real one."""
        known = self._recorded[(len(self.messages) - 1) % len(self._recorded)] if self._recorded else None
        if known is None or known.kind != message.kind or known.sent.shape != message.sent.shape:
            raise ValueError(f"rank {self.rank} sends a message that was not recorded: {message.kind}")
        message.sent = message.sent.clone()
        return Pending(wait=lambda: message.received.copy_(known.received))

    def require_recorded(self) -> None:
        """Raise ValueError unless this rank sent the recorded bits, every time."""
        import torch

        for number, message in enumerate(self.messages):
            known = self._recorded[number % len(self._recorded)]
            if not torch.equal(message.sent.flatten().cpu().view(torch.uint8), known.sent.flatten().cpu().view(torch.uint8)):
                raise ValueError(f"rank {self.rank} sends other bits alone than in its group, in message {number + 1}")
        if not self._recorded or len(self.messages) % len(self._recorded):
            raise ValueError(f"rank {self.rank} sends {len(self.messages)} messages, and {len(self._recorded)} were recorded")


class RankSubject:
    """A subject as one rank sees it: its part of the inputs, and its outputs.

    ``split(params)`` of the subject names the dimension along which a tensor is divided. Others are equal on all ranks.
    """

    def __init__(self, module: Any, group: Group, secret: bytes, common: bytes) -> None:
        self.module, self.group = module, group
        self.split: Mapping[str, int] = {}
        self._secret, self._common = secret, common

    def inputs(self, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Draw the whole inputs from a seed of this rank alone, and keep its part."""
        import torch

        self.split = self.module.split(params)
        drawn = self.module.inputs(params, _seed(self._secret, self.group.rank, seed))
        if any(isinstance(value, torch.Tensor) and name not in self.split for name, value in drawn.items()):
            common = self.module.inputs(params, _seed(self._common, 0, seed))
            drawn = {name: drawn[name] if name in self.split else common[name] for name in drawn}
        return {**self.part(drawn), "group": self.group}

    def outputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Allocate this rank's outputs."""
        return dict(self.module.outputs(inputs))

    def run(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Launch once on the current stream."""
        self.group.messages = []
        self.module.run(inputs, outputs)

    def reference(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return this rank's part of the reference for the joined inputs."""
        return self.part(self.module.reference(self.join(inputs)))

    def join(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of all ranks, as one GPU has them."""
        import torch

        divided = [(name, dim) for name, dim in self.split.items() if name in inputs]
        whole = {name: torch.cat(self.group.collect(inputs[name].contiguous()), dim) for name, dim in divided}
        return {**inputs, **whole, "group": Group()}

    def part(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return this rank's part of whole tensors."""
        parts = {name: values[name].chunk(self.group.size, dim) for name, dim in self.split.items() if name in values}
        if wrong := [
            name for name, pieces in parts.items() if len({piece.shape for piece in pieces}) * len(pieces) != self.group.size
        ]:
            raise ValueError(f"{wrong[0]} cannot be divided into {self.group.size} equal parts: see split()")
        return {**values, **{name: pieces[self.group.rank].clone() for name, pieces in parts.items()}}


def _keep(message: Message, pending: Pending) -> None:
    pending.wait()
    message.sent, message.received = message.sent.clone(), message.received.clone()


def _seed(secret: bytes, rank: int, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(secret + f"{rank} {seed}".encode()).digest()[:6])
