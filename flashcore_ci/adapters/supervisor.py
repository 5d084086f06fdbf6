"""Start the children of one gate, and end all their descendants: ``python -I -S supervisor.py SOCKET``.

With names of modules behind SOCKET it imports these first, and each child is a fork that runs ``python -m MODULE ARGUMENTS``.
Only ``supervised`` starts it. It outlives a gate that was killed. For each child it forks a reaper: a subreaper, so
double forks and new sessions come back to it as orphans. Every process here kills only its own children. No other process can reap
them, so their numbers cannot belong to strangers. It imports nothing of ours: it must start fast and fail alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import runpy
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator

START, KEEP, DROP, TERMINATE, KILL = b"S", b"K", b"D", b"T", b"X"
"""Requests. START brings a socket and the child's two outputs, KEEP a descriptor to hold open until DROP."""
READY = b"R"  # the answer, once all modules are imported
GRACE_SECONDS = 2.0
TICK_SECONDS = 0.25
SET_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
RESTORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGXFSZ", "SIGCHLD")
IS_LINUX = sys.platform == "linux"
LENGTH_BYTES = 8


def parent_of(pid: int) -> int:
    """Return the parent of ``pid``, or 0. ``/proc/PID/stat`` of one's own children is readable under hidepid too."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib takes a third of the start-up time
            return int(file.read(4096).rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def children() -> Iterator[int]:
    """Yield the children of this process, the newest first: what forks and exits in turn is caught so."""
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", "rb") as file:  # noqa: PTH123 - as above
            numbers = file.read().split()
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN
        newest_first = sorted((int(name) for name in os.listdir("/proc") if name.isdecimal()), reverse=True)  # noqa: PTH208
        yield from (pid for pid in newest_first if parent_of(pid) == me)
        return
    yield from map(int, reversed(numbers))


def kill_children(spared: set[int]) -> None:
    """Kill every child that is not ``spared``."""
    for pid in children() if IS_LINUX else ():
        if pid not in spared:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def end_all() -> None:
    """Kill and reap until no descendant is left."""
    pause = 0.001
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        kill_children(set())
        time.sleep(pause)
        pause = min(0.05, 2 * pause)


def _prctl(option: int, value: int) -> None:
    if IS_LINUX and ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _wake_on_exit() -> int:
    """Return a descriptor that is readable when a child has ended."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _wait(control: socket.socket, wake: int, seconds: float | None) -> bool:
    """Wait for a message or the end of a child. Return whether there is a message."""
    watch = select.poll()
    watch.register(control, select.POLLIN)
    watch.register(wake, select.POLLIN)
    ready = {descriptor for descriptor, _ in watch.poll(None if seconds is None else 1e3 * seconds)}
    if wake in ready:
        os.read(wake, 4096)
    return control.fileno() in ready


class ForkedError(Exception):
    """Raised in the child that runs a module: it leaves all that the supervisor was doing."""


class Reaper:
    """The process between the supervisor and one child, which is a fork of it if it ``forks``."""

    def __init__(self, control: socket.socket, outputs: tuple[int, int], wake: int, *, forks: bool) -> None:
        self.control, self.outputs, self.wake, self.forks = control, outputs, wake, forks
        self.limit, self.flooded, self.kill_at = 0, False, float("inf")

    def run(self) -> None:
        """Start the child, wait for its end or the gate's, and end all its descendants."""
        try:
            pid = self._start(*self._receive())
        except OSError as error:
            self._tell(f"failed {error.errno}")
            return
        self._tell(f"started {pid}")
        while not self._has_ended(pid):
            self._listen(pid)
        _signal_group(pid, signal.SIGKILL)  # the child is not reaped yet, so the group's number is still its own
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        end_all()
        self._tell(f"ended {status} {int(self.flooded)}")

    def _receive(self) -> tuple[list[bytes], dict[bytes, bytes], bytes]:
        size = int.from_bytes(self._read(LENGTH_BYTES), "big")
        folder, limit, count, *rest = self._read(size).split(b"\0")
        command, variables = rest[: int(count)], rest[int(count) :]
        self.limit = int(limit)
        return command, dict(variable.split(b"=", 1) for variable in variables), folder

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.control.recv(min(1 << 16, size - len(data)))
            if not part:
                sys.exit(0)  # the gate died before it said what to start
            data += part
        return data

    def _start(self, command: list[bytes], environment: dict[bytes, bytes], folder: bytes) -> int:
        _prctl(SET_CHILD_SUBREAPER, 1)
        if IS_LINUX:
            os.stat("/proc/self/stat")  # noqa: PTH116 - orphans cannot be found without it
        parent = os.getpid()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._become(command, environment, folder, parent, writer)
            except OSError as error:
                os.write(writer, str(error.errno).encode())
            os._exit(127)
        os.close(writer)
        if failure := os.read(reader, 16):
            os.waitpid(pid, 0)
            raise OSError(int(failure), "exec")
        os.close(reader)
        return pid

    def _become(self, command: list[bytes], environment: dict[bytes, bytes], folder: bytes, parent: int, kept: int) -> None:
        os.setsid()
        _prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            return
        signal.set_wakeup_fd(-1)
        for name in RESTORED:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        for number, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), *self.outputs)):
            os.dup2(descriptor, number)
        os.dup2(kept, 3, inheritable=False)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        os.chdir(folder)
        if self.forks:
            os.environb.clear()
            os.environb.update(environment)
            sys.argv = [os.fsdecode(word) for word in command[2:]]  # without the interpreter and -m
            os.close(3)
            raise ForkedError
        try:
            os.execvpe(command[0], command, environment)  # noqa: S606 - a list, without a shell
        except OSError as error:
            os.write(3, str(error.errno).encode())

    def _has_ended(self, pid: int) -> bool:
        """Reap adopted orphans. Return whether the child itself ended, without reaping it."""
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == pid:
                return True
            os.waitpid(ended.si_pid, 0)
        return False

    def _listen(self, pid: int) -> None:
        """Wait for a message, the end of a child, or the next look at the outputs."""
        now = time.monotonic()
        if _wait(self.control, self.wake, max(0.0, min(TICK_SECONDS, self.kill_at - now))):
            words = self.control.recv(64)
            if KILL in words or not words:  # no words: the gate died
                self.kill_at = 0.0
            elif TERMINATE in words:
                _signal_group(pid, signal.SIGTERM)
                self.kill_at = min(self.kill_at, now + GRACE_SECONDS)
        if not self.flooded and any(os.fstat(output).st_size > self.limit for output in self.outputs):
            self.flooded, self.kill_at = True, 0.0
        if time.monotonic() >= self.kill_at:
            _signal_group(pid, signal.SIGKILL)

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):  # the gate died
            self.control.sendall(f"{line}\n".encode())


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


class Supervisor:
    """Forks a reaper per child. ``kept`` are locks: they are free when the last reaper has ended."""

    def __init__(self, control: socket.socket, *, forks: bool) -> None:
        self.control, self.wake, self.forks = control, _wake_on_exit(), forks
        self.reapers: set[int] = set()
        self.kept: list[int] = []

    def run(self) -> None:
        """Serve until the gate ends, then wait for the reapers, and end what they left."""
        _prctl(SET_CHILD_SUBREAPER, 1)
        while True:
            if _wait(self.control, self.wake, None) and not self._serve():
                break
            self._reap()
        deadline = time.monotonic() + GRACE_SECONDS
        while self.reapers and time.monotonic() < deadline:
            time.sleep(0.005)
            self._reap()
        end_all()

    def _serve(self) -> bool:
        """Read one request. Return False at the end of the gate."""
        try:
            word, descriptors, _, _ = socket.recv_fds(self.control, 1, 3, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        except ConnectionResetError:
            return False
        if word == START:
            self._fork(*descriptors)
        elif word == KEEP:
            self.kept += descriptors
        elif word == DROP:
            os.close(self.kept.pop())
        return bool(word)

    def _fork(self, talk: int, *outputs: int) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                self.control.close()
                stdout, stderr = outputs
                Reaper(socket.socket(fileno=talk), (stdout, stderr), _wake_on_exit(), forks=self.forks).run()
                os._exit(0)
            except ForkedError:
                raise
            except BaseException:  # noqa: BLE001 - no process of its own goes on as a supervisor
                os._exit(1)
        self.reapers.add(pid)
        for descriptor in (talk, *outputs):
            os.close(descriptor)

    def _reap(self) -> None:
        """Reap. If a reaper was killed, its children are orphans here: kill them."""
        orphaned = False
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                orphaned |= ended[0] not in self.reapers or ended[1] != 0
                self.reapers.discard(ended[0])
        if orphaned:
            kill_children(self.reapers)


def main() -> None:
    """Serve the gate at the other end of the socket. Signals are for the gate."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    modules = [importlib.import_module(name) for name in sys.argv[2:]]
    control.sendall(READY if modules else b"")
    with contextlib.suppress(ForkedError):
        Supervisor(control, forks=bool(modules)).run()
        os._exit(0)  # at once: torch may be imported here
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)  # sys.argv is the child's


if __name__ == "__main__":
    main()
