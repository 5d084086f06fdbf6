"""A subject whose ``run`` is an untrusted candidate's. Everything that the candidate must not know stays in this process."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

from flashcore_ci.worker import tensors
from flashcore_ci.worker.channel import ProtocolError
from flashcore_ci.worker.job import Job, Subject
from flashcore_ci.worker.layout import Layout
from flashcore_ci.worker.redzones import CANARY
from flashcore_ci.worker.shared_memory import SharedMemory
from flashcore_ci.worker.supervisor import Candidate, NotIsolatedError

_killed: list[Candidate] = []


def reap() -> None:
    """Wait for every candidate that was killed. The driver takes 0.2 s to end one, and others work meanwhile."""
    while _killed:
        _killed.pop().close()


class IsolatedSubject:
    """A subject whose ``run`` is the candidate's, elsewhere. The rest is the trusted file's."""

    def __init__(self, job: Job, subject: Subject, trusted: Any) -> None:
        self._job, self._subject, self._trusted = job, subject, trusted
        self._secret = secrets.token_bytes(16)
        self._spare: list[Candidate] = []
        self._ahead, self._planned = 1, 1
        self._candidate: Candidate | None = None
        self._memory: SharedMemory | None = None
        self._layout: Layout | None = None
        self.name, self.outputs, self.reference = subject.name, trusted.outputs, trusted.reference
        self.isolation: dict[str, str] | None = None

    def prepare(self, ahead: int, planned: int) -> None:
        """Start processes ahead of their use. ``planned`` are needed in all."""
        self._ahead, self._planned = ahead, planned
        while len(self._spare) < min(self._ahead, self._planned):
            self._spare.append(Candidate(self._job, self._subject))

    def warm(self, *, profiler: bool, wait: bool, entered: bool) -> None:
        """Warm the processes that were started ahead, those that have ``entered``, or ``wait`` until they are warm.

        A mistake is raised again when one is used.
        """
        for candidate in self._spare:
            with contextlib.suppress(ProtocolError, NotIsolatedError):
                if wait:
                    candidate.await_warm()
                elif not entered or candidate.has_entered():
                    candidate.warm(profiler=profiler)

    def inputs(self, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Draw inputs from a seed that only this process knows."""
        hidden = hashlib.sha256(self._secret + str(seed).encode()).digest()
        return dict(self._trusted.inputs(params, int.from_bytes(hidden[:6])))

    def fresh(self) -> Candidate:
        """Return a new process without the candidate's code. The last one is ended."""
        self.close()
        self.prepare(self._ahead, max(1, self._planned))
        candidate = self._spare.pop(0)
        self.prepare(self._ahead, self._planned - 1)
        self.isolation = None
        try:
            candidate.await_warm()
            self.isolation = {**candidate.isolation(), "clock": "none"}
        finally:
            if self.isolation is None:
                candidate.close()
        self._candidate = candidate
        return candidate

    def run(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Launch once in the candidate's process, on copies of these tensors."""
        self._launch("launch", inputs, outputs)

    def kernels(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> set[str]:
        """Launch once. Return the names of the kernels, as the candidate's process saw them."""
        names = self._launch("kernels", inputs, outputs).get("kernels")
        return {str(name) for name in names} if isinstance(names, list) else set()

    def close(self) -> None:
        """Kill the candidate's process and release the memory. ``reap`` waits for its end."""
        candidate, self._candidate, self._layout = self._candidate, None, None
        if candidate is not None:
            candidate.kill()
            _killed.append(candidate)
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def end(self) -> None:
        """End all processes, at the end of the job."""
        self.close()
        for candidate in self._spare:
            candidate.kill()
        _killed.extend(self._spare)
        self._spare.clear()
        reap()

    def _launch(self, do: str, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
        import torch

        try:
            candidate, layout = self._ready(inputs, outputs)
            memory = self._memory.bytes() if self._memory is not None else None
            given, written = layout.views(memory, 0)
            for mine, shared in ((inputs, given), (outputs, written)):
                for name in layout.inputs if mine is inputs else layout.outputs:
                    shared[name].copy_(mine[name])
            torch.cuda.synchronize()
            answer = candidate.ask(do, launches=1, graph=False)
            for name, tensor in outputs.items():
                tensor.copy_(written[name])
            tensors.refuse_changed({name: given[name] for name in layout.inputs}, inputs)
            if layout.overwritten(memory, 1):
                raise ValueError("wrote next to a tensor, outside of its memory")
        except ProtocolError:
            self.close()
            raise
        return answer

    def _ready(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[Candidate, Layout]:
        candidate = self._candidate
        if candidate is None:
            candidate = self.fresh()
            reap()
            candidate.load()
        layout = Layout.of(inputs, outputs)
        if layout != self._layout:
            self._layout = None  # until the candidate has mapped the memory
            if self._memory is not None:
                self._memory.close()
            self._memory = SharedMemory(layout.bytes)
            self._memory.bytes().fill_(CANARY)
            candidate.share(self._memory, layout, 1)
            candidate.finish()
            self._layout = layout
        return candidate, layout
