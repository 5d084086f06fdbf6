"""Processes that import the tool while the gate plans, so that its shards start at once."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from flashcore_ci.adapters import clock, process
from flashcore_ci.adapters.process import Completed
from flashcore_ci.fleet.engine import import_variables

WAITING = (sys.executable, "-P", "-m", "flashcore_ci.cli.shard_process")
FOREVER = 7 * 86_400.0
"""Until a process gets its command, only the end of the gate ends it."""


@dataclass(slots=True)
class Waiting:
    """One process. It blocks on a FIFO that only this user can open, and takes no time of the CPU."""

    fifo: Path
    _descriptor: int = -1
    _end: float = FOREVER
    _should_stop: Callable[[], bool] = bool
    _done: Future[Completed] | None = None

    def start(self, pool: ThreadPoolExecutor, root: Path) -> None:
        """Start it."""
        os.mkfifo(self.fifo, 0o600)
        self._descriptor = os.open(self.fifo, os.O_RDWR)  # never blocks, and keeps what was written
        self._end = clock.monotonic() + FOREVER
        self._done = pool.submit(
            process.run,
            [*WAITING, self.fifo.absolute()],
            logs=self.fifo.parent,
            name=self.fifo.stem,
            timeout=FOREVER,
            cwd=root,
            variables=import_variables(root),
            should_stop=lambda: clock.monotonic() > self._end or self._should_stop(),
        )

    def run(self, argv: Sequence[str | Path], *, timeout: float, should_stop: Callable[[], bool]) -> Completed | None:
        """Run the command line, which is short, to its end. None: the process ended before it."""
        if self._done is None or self._done.done():
            return None
        self._should_stop, self._end = should_stop, clock.monotonic() + timeout
        os.write(self._descriptor, json.dumps(list(map(str, argv))).encode() + b"\n")
        return self._done.result()

    def close(self) -> None:
        """End it."""
        self._end = 0.0
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@dataclass(slots=True)
class Ahead:
    """Some processes that wait. Each is used once."""

    logs: Path
    root: Path
    _free: list[Waiting] = field(default_factory=list)
    _all: list[Waiting] = field(default_factory=list)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(64))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, count: int) -> None:
        """Start so many."""
        self.logs.mkdir(parents=True, exist_ok=True)
        self._all = [Waiting(self.logs / f"waiting-{number}.fifo") for number in range(count)]
        for one in self._all:
            one.start(self._pool, self.root)
        self._free = list(self._all)

    def take(self) -> Waiting | None:
        """Return one that is free."""
        with self._lock:
            return self._free.pop() if self._free else None

    def close(self) -> None:
        """End those that wait. Those that run a command have ended."""
        for one in self._all:
            one.close()
        self._pool.shutdown()
