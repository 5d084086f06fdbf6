"""A supervisor as the gate sees it: a process that starts children, and the socket to it. Only ``process`` uses this module.

One kind replaces itself by a child's program. The other kind has imported modules before, and a child is a fork of it that runs a
module of its own: it needs no time to import them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flashcore_ci.adapters import supervisor
from flashcore_ci.model.errors import CannotCollectError

IMPORT_SECONDS = 60.0
END_SECONDS = 1.0


@dataclass(slots=True)
class Supervisor:
    """One of them. ``python`` is the program of the children that it forks, or empty. ``imported`` is known once it has answered."""

    control: socket.socket
    child: subprocess.Popen[bytes]
    python: str = ""
    imported: bool | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def can_fork(self, python: str) -> bool:
        """Wait until its modules are imported. Return False for another program, or if they cannot be."""
        if not python or self.python != python:
            return False
        with self.lock:
            if self.imported is None:
                self.imported = self._hear() == supervisor.READY
            return self.imported

    def _hear(self) -> bytes:
        watch = select.poll()
        watch.register(self.control, select.POLLIN)
        with contextlib.suppress(OSError):
            return self.control.recv(1) if watch.poll(1e3 * IMPORT_SECONDS) else b""
        return b""

    def request(self, word: bytes, descriptors: list[int]) -> None:
        """Send a request. CannotCollectError if the supervisor was killed, unless it only failed to import its modules."""
        try:
            socket.send_fds(self.control, [word], descriptors) if descriptors else self.control.sendall(word)
        except OSError:
            if self.python and not self.imported:
                return
            raise CannotCollectError("the supervisor of this run was killed", fix="run the command again") from None

    def resume(self) -> None:
        """Continue it and its reapers, which a child may have stopped."""
        if self.child.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child.pid, signal.SIGCONT)

    def dismiss(self) -> None:
        """Let it end."""
        self.control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(END_SECONDS)


def request_bytes(command: list[bytes], environment: list[bytes], folder: bytes, limit: int) -> bytes:
    """Encode what a reaper needs. No argument or variable can hold a zero byte."""
    text = b"\0".join((folder, str(limit).encode(), str(len(command)).encode(), *command, *environment))
    return len(text).to_bytes(supervisor.LENGTH_BYTES, "big") + text


def start() -> Supervisor:
    """Start a supervisor: ending children must not depend on this process."""
    return _start((sys.executable, "-I", "-S"), ())


def start_importing(python: Path, modules: Sequence[str], environment: Mapping[str, str]) -> Supervisor:
    """Start one that imports ``modules`` with ``python``, and return at once."""
    return _start((str(python), "-P"), modules, environment)


def _start(python: Sequence[str], modules: Sequence[str], environment: Mapping[str, str] | None = None) -> Supervisor:
    ours, its = socket.socketpair()
    argv = [*python, supervisor.__file__, str(its.fileno()), *modules]
    null = subprocess.DEVNULL
    with its, contextlib.ExitStack() as failed:
        failed.callback(ours.close)
        # A group of its own, but in our session: when we die, the kernel continues it if a child stopped it.
        child = subprocess.Popen(  # noqa: S603 - our own program
            argv, stdin=null, stdout=null, stderr=null, pass_fds=[its.fileno()], process_group=0, env=environment
        )
        failed.pop_all()
    found = Supervisor(ours, child, python[0] if modules else "")
    atexit.register(found.dismiss)
    return found
