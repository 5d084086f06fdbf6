"""Start other processes. Nothing else imports ``subprocess``.

A child has its own process group and no standard input. Its output goes to files, so no pipe can fill up. At a time-out or a
stop the group gets SIGTERM, then SIGKILL. A child is reaped last: until then no other process can get its number.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError

GRACE_SECONDS = 2.0
POLL_SECONDS = 0.02
SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|_KEY$|AUTH|^(ACTIONS|GITHUB|INPUT|GH|PIP)_")
"""Names of variables that code of a pull request must not see: tokens, and the files by which a job talks to GitHub."""
RUNNING = math.inf  # the end time of a child that still runs
_children: set[int] = set()
_sessions: dict[int, float] = {}  # session (the child's pid) to its end, in seconds since boot
_lock = threading.Lock()
_stopping = threading.Event()


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a child ended. A negative ``returncode`` is the signal that killed it."""

    argv: tuple[str, ...]
    returncode: int
    timed_out: bool
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

    def text(self, *, limit: int = 64 << 20) -> str:
        """Return at most ``limit`` bytes of standard output."""
        return read_text(self.stdout, limit=limit)

    def error_text(self, *, limit: int = 64 << 20) -> str:
        """Return standard error, as ``text``."""
        return read_text(self.stderr, limit=limit)


def read_text(path: Path, *, limit: int = 64 << 20) -> str:
    """Read a tool's output. Undecodable bytes are replaced. An absent file is empty."""
    try:
        with path.open("rb") as file:
            return file.read(limit).decode("utf-8", errors="replace")
    except FileNotFoundError:
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
) -> Completed:
    """Run ``argv`` to its end. Output goes to ``logs/name.out`` and ``logs/name.err``.

    ``env`` replaces the environment, ``variables`` are added. If ``should_stop`` returns True, the child times out. No process of
    its group survives. CannotCollectError if it cannot start, InterruptedRunError after ``stop_all``.
    """
    logs.mkdir(parents=True, exist_ok=True)
    out, err = logs / f"{name}.out", logs / f"{name}.err"
    command = tuple(str(part) for part in argv)
    started = time.monotonic()
    with out.open("wb") as stdout, err.open("wb") as stderr:
        environment = {**(os.environ if env is None else env), **(variables or {})}
        child = _start(command, stdout.fileno(), stderr.fileno(), cwd, environment)
        try:
            timed_out = _wait(child, started + timeout, should_stop)
        finally:
            _end_group(child)
    seconds = time.monotonic() - started
    return Completed(argv=command, returncode=child.returncode, timed_out=timed_out, seconds=seconds, stdout=out, stderr=err)


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a process that runs code of a pull request."""
    return {name: value for name, value in environ.items() if not SECRET.search(name.upper())}


def stop_all(*, kill: bool = False) -> None:
    """End every child and refuse new ones. ``kill`` grants no grace."""
    _stopping.set()
    for pid in tuple(_children):
        _signal_group(pid, signal.SIGKILL if kill else signal.SIGTERM)


def stopping() -> bool:
    """Tell whether ``stop_all`` was called."""
    return _stopping.is_set()


def is_descendant(pid: int) -> bool:
    """Tell whether ``pid`` descends from a child of this tool, and does not just reuse its number."""
    try:
        ended = _sessions.get(os.getsid(pid))
        return ended is not None and _start_time(pid) <= ended
    except (OSError, ValueError):
        return False


def _start_time(pid: int) -> float:
    """Field 22 of proc(5)'s stat, in seconds since boot."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _start(command: Sequence[str], stdout: int, stderr: int, cwd: Path | None, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    if _stopping.is_set():
        raise InterruptedRunError("the run was stopped")
    try:
        child = subprocess.Popen(  # noqa: S603 - argv is a list, without a shell
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=True
        )
    except OSError as error:
        raise CannotCollectError(f"cannot start {command[0]}: {error.strerror}", fix="flashcore-ci doctor") from None
    with _lock:
        _children.add(child.pid)
        _sessions[child.pid] = RUNNING
    return child


def _wait_for_exit(child: subprocess.Popen[bytes], seconds: float | None) -> bool:
    """Wait up to ``seconds`` (None: forever), on Linux without a reap."""
    if not hasattr(os, "pidfd_open"):
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
            return True
        return False
    try:
        descriptor = os.pidfd_open(child.pid)
    except ProcessLookupError:  # SIGCHLD is ignored, as our parent process set it
        return True
    try:
        watch = select.poll()
        watch.register(descriptor, select.POLLIN)
        return bool(watch.poll(None if seconds is None else 1e3 * seconds))
    finally:
        os.close(descriptor)


def _wait(child: subprocess.Popen[bytes], deadline: float, should_stop: Callable[[], bool] | None) -> bool:
    while True:
        if _wait_for_exit(child, POLL_SECONDS):
            return False
        if _stopping.is_set() or time.monotonic() > deadline or (should_stop is not None and should_stop()):
            return True


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """SIGTERM, grace, SIGKILL to the group, grandchildren too."""
    if not _wait_for_exit(child, 0):
        _signal_group(child.pid, signal.SIGTERM)
        _wait_for_exit(child, GRACE_SECONDS)
    _signal_group(child.pid, signal.SIGKILL)
    _wait_for_exit(child, None)
    with _lock:
        _children.discard(child.pid)
        _sessions[child.pid] = time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    child.wait()


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
