"""Start other processes, by way of ``supervised``. Nothing else does.

A child has its own session and no standard input. Its output goes to files, so no pipe can fill up. The supervisor starts it and
ends all its descendants: at its end, at a time-out (SIGTERM, then SIGKILL), and when this tool dies of anything.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.adapters import supervised, supervisor
from flashcore_ci.adapters.supervised import Supervisor
from flashcore_ci.bounded import files
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError

POLL_SECONDS = 0.02
MAX_OUTPUT = 256 << 20
"""Bytes of one output of a child. It is killed at more."""
ANSWER_SECONDS = 30.0
"""Time for the supervisor to end a child, beyond its grace. A driver may hold a dying process for a while."""
SECRET = re.compile(
    r"TOKEN|SECRET|PASS|CREDS?$|CREDENTIAL|KEY(S|_ID|_BASE64)?$|AUTH|COOKIE|WEBHOOK|NETRC|KUBECONFIG|(^|_)(PAT|DSN|JWT)$|_PWD$"
    r"|^(ACTIONS|GITHUB|INPUT|GH|PIP)_|_(URL|URI)$"
)
"""Names of variables that code of a pull request must not see: tokens, and the files by which a job talks to GitHub."""
_plain: Supervisor | None = None
_importing: Supervisor | None = None
_kept: list[int] = []
_children: dict[int, socket.socket] = {}  # the socket to the reaper of each child, by its number
_lock = threading.RLock()
_stopping = threading.Event()


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a child ended. A negative ``returncode`` is the signal that killed it."""

    argv: tuple[str, ...]
    returncode: int
    timed_out: bool
    flooded: bool = False
    seconds: float
    stdout: Path
    stderr: Path

    @property
    def signal_name(self) -> str:
        """The signal that ended the child, or an empty string."""
        if self.returncode >= 0:
            return ""
        try:
            return signal.Signals(-self.returncode).name
        except ValueError:
            return f"signal {-self.returncode}"

    def text(self, *, limit: int = files.MAX_LOG) -> str:
        """Return at most ``limit`` bytes of standard output."""
        return read_text(self.stdout, limit=limit)

    def error_text(self, *, limit: int = files.MAX_LOG) -> str:
        """Return standard error, as ``text``."""
        return read_text(self.stderr, limit=limit)

    def last_lines(self) -> list[str]:
        """Return the last lines of both outputs, those of standard error last."""
        return [line for file in (self.stdout, self.stderr) for line in _end_of(file).splitlines()]


def read_text(path: Path, *, limit: int = files.MAX_LOG) -> str:
    """Read the beginning of a tool's output. Undecodable bytes are replaced. What is absent or no plain file is empty."""
    try:
        return files.read_start(path, limit=limit, follow=False).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _end_of(path: Path) -> str:
    try:
        return files.read_end(path, limit=64 * files.KIB).decode("utf-8", errors="replace")
    except OSError:
        return ""


def run(
    argv: Sequence[str | Path],
    *,
    logs: Path,
    name: str,
    timeout: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    should_stop: Callable[[], bool] | None = None,
    imported: bool = False,
) -> Completed:
    """Run ``argv`` to its end. Output goes to ``logs/name.out`` and ``logs/name.err``.

    ``env`` replaces the environment, ``variables`` are added. If ``should_stop`` returns True, the child times out. ``imported``: it
    is a module of Python, and may be a fork of what ``importing`` started. No descendant survives. CannotCollectError if it cannot
    start, InterruptedRunError after ``stop_all``.
    """
    logs.mkdir(parents=True, exist_ok=True)
    out, err = logs / f"{name}.out", logs / f"{name}.err"
    command = tuple(str(part) for part in argv)
    environment = {**(os.environ if env is None else env), **(variables or {})}
    variables_of = [os.fsencode(f"{key}={value}") for key, value in environment.items()]
    folder = os.fsencode(Path.cwd() if cwd is None else cwd)
    request = supervised.request_bytes([os.fsencode(part) for part in command], variables_of, folder, MAX_OUTPUT)
    started = time.monotonic()
    with (
        out.open("wb") as stdout,
        err.open("wb") as stderr,
        _reaper(stdout.fileno(), stderr.fileno(), command[0] if imported else "") as talk,
    ):
        status, flooded, timed_out = _wait(talk, request, command[0], started + timeout, should_stop)
    seconds = time.monotonic() - started
    return Completed(
        argv=command, returncode=status, timed_out=timed_out, flooded=flooded, seconds=seconds, stdout=out, stderr=err
    )


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a process that runs code of a pull request."""
    return {name: value for name, value in environ.items() if not SECRET.search(name.upper())}


def stop_all(*, kill: bool = False) -> None:
    """End every child and refuse new ones. ``kill`` grants no grace."""
    _stopping.set()
    with _lock:
        for talk in _children.values():
            _tell(talk, supervisor.KILL if kill else supervisor.TERMINATE)


def stopping() -> bool:
    """Tell whether ``stop_all`` was called."""
    return _stopping.is_set()


def is_descendant(pid: int) -> bool:
    """Tell whether ``pid`` descends from a child of this tool, by the parents of today: a number that is used again does not."""
    while pid > 1 and pid not in _children:
        pid = supervisor.parent_of(pid)
    return pid in _children


@contextlib.contextmanager
def keep_locked(descriptor: int) -> Iterator[None]:
    """Keep a lock's ``descriptor`` open while a child lives, even if this tool is killed."""
    with _lock:
        _kept.append(descriptor)
        for one in _supervisors():
            one.request(supervisor.KEEP, [descriptor])
    try:
        yield
    finally:
        with _lock:
            _kept.remove(descriptor)
            for one in _supervisors():
                one.request(supervisor.DROP, [])


@contextlib.contextmanager
def importing(python: Path, modules: Sequence[str], environment: Mapping[str, str]) -> Iterator[None]:
    """Import ``modules`` in a process that meanwhile forks the children of ``python`` which say that they may be.

    Inside of another such block it does nothing.
    """
    global _importing  # noqa: PLW0603 - one per process, as its children are
    started: Supervisor | None = None
    with _lock, contextlib.suppress(OSError):  # if there is no such program, its first child tells
        if _importing is None:
            _importing = started = _keep_all(supervised.start_importing(python, modules, environment))
    try:
        yield
    finally:
        if started is not None:
            with _lock:
                _importing = None
            started.dismiss()


def _supervisors() -> Iterator[Supervisor]:
    yield from (one for one in (_plain, _importing) if one is not None)


def _keep_all(started: Supervisor) -> Supervisor:
    for descriptor in _kept:
        started.request(supervisor.KEEP, [descriptor])
    return started


def _supervise() -> Supervisor:
    """Return the supervisor of children with a program of their own."""
    global _plain  # noqa: PLW0603 - one per process, as its children are
    _plain = _plain or _keep_all(supervised.start())
    return _plain


@contextlib.contextmanager
def _reaper(stdout: int, stderr: int, python: str) -> Iterator[socket.socket]:
    """Ask for a reaper. It ends its child when the socket closes. A child of ``python`` may be a fork."""
    if _stopping.is_set():
        raise InterruptedRunError("the run was stopped")
    forking = _importing
    if forking is not None and not forking.can_fork(python):
        forking = None
    ours, its = socket.socketpair()
    with ours:
        ours.settimeout(ANSWER_SECONDS)
        with its, _lock:
            (forking or _supervise()).request(supervisor.START, [its.fileno(), stdout, stderr])
        yield ours


def _wait(
    talk: socket.socket, request: bytes, program: str, deadline: float, should_stop: Callable[[], bool] | None
) -> tuple[int, bool, bool]:
    """Return the child's status, whether it printed too much, and whether it was stopped."""
    _tell(talk, request)
    timed_out, pid = False, 0
    try:
        for word, *values in _messages(talk):
            if word == "ended":
                return int(values[0]), values[1] == "1", timed_out
            if word == "failed":
                raise CannotCollectError(f"cannot start {program}: {os.strerror(int(values[0]))}", fix="flashcore-ci doctor")
            if word == "started":
                pid = int(values[0])
                with _lock:
                    _children[pid] = talk
            elif timed_out:
                _insist(program, deadline)
            elif _stopping.is_set() or time.monotonic() > deadline or (should_stop is not None and should_stop()):
                timed_out, deadline = True, time.monotonic()
                _tell(talk, supervisor.TERMINATE)
    finally:
        with _lock:
            _children.pop(pid, None)
    raise AssertionError("the messages of a reaper have an end")


def _messages(talk: socket.socket) -> Iterator[list[str]]:
    """Yield the words of each line, or "silent" after ``POLL_SECONDS``. A killed reaper reads as a child that got SIGKILL."""
    heard = b""
    watch = select.poll()
    watch.register(talk, select.POLLIN)
    while True:
        if not watch.poll(1e3 * POLL_SECONDS):
            yield ["silent"]
            continue
        part = b""
        with contextlib.suppress(OSError):  # the reaper was killed
            part = talk.recv(256)
        *lines, heard = (heard + part).split(b"\n")
        yield from (line.decode("ascii").split() for line in lines)
        if not part:
            yield ["ended", str(-signal.SIGKILL), "0"]


def _tell(talk: socket.socket, words: bytes) -> None:
    with contextlib.suppress(OSError):  # the reaper was killed: the wait for it ends
        talk.sendall(words)


def _insist(program: str, since: float) -> None:
    """Continue supervisor and reapers, which a child may have stopped. CannotCollectError if the child never ends."""
    if time.monotonic() > since + supervisor.GRACE_SECONDS + ANSWER_SECONDS:
        raise CannotCollectError(f"{program} cannot be ended", fix="end it by hand, then run the command again")
    for one in _supervisors():
        one.resume()
