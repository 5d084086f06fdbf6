"""The process of an untrusted candidate. What it says is never believed, only compared.

It gives up its rights first, imports torch, and then waits for questions. The code of the candidate is loaded by the question
``load``. Before that, everything here is trusted.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any

from flashcore_ci.worker import kernels_seen, sandbox, tensors, unjoined
from flashcore_ci.worker.channel import SPIN_SECONDS
from flashcore_ci.worker.driver import Driver, start_beside
from flashcore_ci.worker.layout import Layout
from flashcore_ci.worker.shared_memory import SharedMemory, attach
from flashcore_ci.worker.subject_file import last_line

DESCRIPTOR = 3
MAX_QUESTION = 1 << 17
MAX_NAMES = 200
HOLD_CYCLES = 20_000_000  # about 10 ms: longer than it takes to submit a launch
CUDA, PROFILER = "cuda", "profiler"
"""How warm a process is to be that has no code of the candidate yet."""


def main() -> None:
    """Serve the supervisor until it closes the socket."""
    os.closerange(DESCRIPTOR + 1, os.sysconf("SC_OPEN_MAX"))
    end = socket.socket(fileno=DESCRIPTOR)
    sys.path.pop(0)
    process, spin_until = _Process(), 0.0
    while True:
        data, descriptors = _receive(end, spin_until)
        if not data:
            return
        question = json.loads(data)
        try:
            answer = getattr(process, question["do"])(question, descriptors)
        except Exception as error:  # noqa: BLE001 - a candidate may raise anything
            answer = {"error": last_line(error)}
        end.send(json.dumps({"token": question["token"], **answer}).encode())
        spin_until = monotonic() + SPIN_SECONDS


def _receive(end: socket.socket, spin_until: float) -> tuple[bytes, list[int]]:
    """Return the next question. Poll for it first: to sleep and wake up would be noise of a burst."""
    while True:
        try:
            return socket.recv_fds(end, MAX_QUESTION, 1, socket.MSG_DONTWAIT if monotonic() < spin_until else 0)[:2]
        except BlockingIOError:
            continue


class _Process:
    """Answers to the questions, by name."""

    def __init__(self) -> None:
        self._module: Any = None
        self._memory: SharedMemory | None = None
        self._sets: list[tuple[Any, Any]] = []
        self._graphs: dict[int, Any] = {}
        self._stream: Any = None
        self._driver: Driver | None = None

    def enter(self, question: dict[str, Any], _: list[int]) -> dict[str, Any]:
        """Enter the sandbox, import torch, and start CUDA if it is to be ``warm``. Return what holds there."""
        paths = {name: [Path(path) for path in question[name]] for name in ("readable", "hidden", "fixed")}
        user, writable = question["user"], Path(question["writable"])
        packages = [
            Path(folder) for folder in sys.path if folder and not any(file.is_relative_to(folder) for file in paths["hidden"])
        ]
        sandbox.enter([*paths["readable"], *packages], writable, user=user)
        os.chdir(writable)
        facts = sandbox.verify(question["parent"], paths["hidden"], paths["fixed"], user=user)
        starting = start_beside() if question["warm"] == PROFILER else None  # correctness needs it first
        import torch

        if starting is not None:
            starting.join()
        if question["warm"]:
            with contextlib.suppress(Exception):  # it is raised again when CUDA is needed
                self.warm({"profiler": question["warm"] == PROFILER}, [])
        return {"facts": facts, "torch": torch.__version__}

    def warm(self, question: dict[str, Any], _: list[int]) -> dict[str, Any]:
        """Start CUDA, and the profiler if it is needed. Both take a second, and here others work meanwhile."""
        import torch

        self._driver = Driver()
        if question["profiler"]:
            with kernels_seen.watching():
                torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        return {}

    def load(self, question: dict[str, Any], _: list[int]) -> dict[str, Any]:
        """Import the candidate's file, and load its library."""
        spec = importlib.util.spec_from_file_location("flashcore_ci_candidate", question["file"])
        if spec is None or spec.loader is None:
            raise ImportError(f"{question['file']} is not a Python file")
        self._module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = self._module
        vars(self._module)["SUBJECT"] = question["name"]
        spec.loader.exec_module(self._module)
        if hasattr(self._module, "load"):
            self._module.load(None if question["library"] is None else Path(question["library"]))
        return {}

    def prepare(self, question: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Map the sets of buffers. Nothing is in them yet."""
        self._sets, self._graphs = [], {}
        if self._memory is not None:
            self._memory.close()
        self._memory = attach(question["size"], descriptors[0])
        layout, memory = Layout.read(question["layout"]), self._memory.bytes()
        for number in range(question["sets"]):
            inputs, outputs = layout.views(memory, number)
            self._sets.append((MappingProxyType(inputs), MappingProxyType(outputs)))
        return {}

    def capture(self, question: dict[str, Any], _: list[int]) -> dict[str, Any]:
        """Capture launches on the first sets in a CUDA graph."""
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            for inputs, outputs in self._sets[: question["launches"]]:
                self._module.run(inputs, outputs)
        self._graphs[question["launches"]] = graph
        return {}

    def launch(self, question: dict[str, Any], _: list[int]) -> dict[str, Any]:
        """Launch once on each of the first sets. Return the milliseconds between two events.

        The events are looked up in torch each time: a clock that was exchanged must show.
        """
        import torch

        count = question["launches"]
        with torch.cuda.stream(self._own_stream()):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            if not count:
                torch.zeros(1, device="cuda")  # nothing is loaded: this is what a burst takes without its launches
            self._submit(question)
            stop.record()
        torch.cuda.synchronize()
        return {"ms": start.elapsed_time(stop)}

    def held(self, question: dict[str, Any], _: list[int]) -> dict[str, Any]:
        """Hold the stream, poison the outputs and launch. Work that does not wait for the stream is overwritten."""
        import torch

        with torch.cuda.stream(self._own_stream()):
            torch.cuda._sleep(HOLD_CYCLES)  # noqa: SLF001 - nothing public holds a stream; PyTorch's own tests use it
            tensors.poison(self._sets[0][1], question["poison"])
            self._submit(question)
        torch.cuda.synchronize()
        return {}

    def watch(self, question: dict[str, Any], _: list[int]) -> dict[str, Any]:
        """Launch, and look for work on other streams. Nothing of this is a time that counts."""
        import torch

        def launch(hold: Callable[[], object]) -> None:
            hold()
            self._submit(question)

        if self._driver is None:
            self._driver = Driver()
        with torch.cuda.stream(self._own_stream()):
            observed = unjoined.observe(self._driver, launch, lambda: self._submit(question))
        try:
            return {"ms": 1.0, "found": unjoined.describe(observed)}
        except unjoined.NotSeenError as error:
            return {"ms": 1.0, "unseen": str(error)}

    def _own_stream(self) -> Any:
        import torch

        if self._stream is None:
            self._stream = torch.cuda.Stream()
        return self._stream

    def _submit(self, question: dict[str, Any]) -> None:
        graph = self._graphs.get(question["launches"]) if question["graph"] else None
        if graph is not None:
            graph.replay()
            return
        for inputs, outputs in self._sets[: question["launches"]]:
            self._module.run(inputs, outputs)

    def kernels(self, question: dict[str, Any], _: list[int]) -> dict[str, Any]:
        """Launch under PyTorch's profiler. Return the names of what ran."""
        with kernels_seen.watching() as names:
            self.launch({**question, "launches": 1, "graph": False}, [])
        return {"kernels": sorted({name[:200] for name in names()})[:MAX_NAMES]}
