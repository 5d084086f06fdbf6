"""Run an untrusted candidate in a process of its own.

The trusted file of the subject gives inputs, outputs and reference. The candidate's file gives ``run`` and ``load``. Its process
sees tensors only, in memory that is shared just for that, and only while it launches.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flashcore_ci.model import isolation
from flashcore_ci.model.evidence import Isolation
from flashcore_ci.model.suite import Kind
from flashcore_ci.worker import file_reads, sandbox
from flashcore_ci.worker.candidate import DESCRIPTOR
from flashcore_ci.worker.channel import Channel
from flashcore_ci.worker.job import Job, Subject
from flashcore_ci.worker.layout import Layout
from flashcore_ci.worker.shared_memory import SharedMemory

START_SECONDS = 120.0
LAUNCH_SECONDS = 60.0
SET_DUMPABLE = 4
MAX_ERRORS = 1 << 16
KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "LANG", "LC_ALL")
PROGRAM = "import sys; sys.path.insert(0, {!r}); from flashcore_ci.worker import candidate; candidate.main()"


class NotIsolatedError(Exception):
    """The kernel of this machine does not give the isolation that the suite demands."""


class CandidateError(Exception):
    """The candidate's own code raised an exception, here in one line."""


class Candidate:
    """One process. It has no code of the candidate before ``load``."""

    def __init__(self, job: Job, subject: Subject, *, warm: str = "") -> None:
        self._subject, self._root, self._log_folder = subject, job.root, job.folder
        self._folder = Path(tempfile.mkdtemp(prefix="flashcore-ci-candidate-"))
        self._folder.chmod(0o755)
        home, files = self._folder / "home", self._copy_files()
        home.mkdir(mode=0o700)
        self._user, self._claim = sandbox.claim_user()
        if self._user:
            os.chown(home, self._user, self._user)
        elif os.geteuid():
            ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)  # other processes of this user cannot read this one's memory
        self._channel, self._pid = self._spawn(home)
        self._entering: str | None = self._channel.post(
            "enter",
            readable=[str(self._folder / "tree")],
            writable=str(home),
            hidden=[str(path) for path in (subject.file, job.folder / "job.json", job.folder / "result.json")],
            fixed=[str(path) for path in (*files, subject.file)],
            user=self._user,
            parent=os.getpid(),
            warm=warm,
        )
        self._facts: dict[str, str] = {}
        self._refused, self._warming, self._begun, self._is_warm = "", "", "", bool(warm)

    def isolation(self) -> dict[str, str]:
        """Return what holds in the process. NotIsolatedError if that is too little."""
        if self._entering is not None:
            token, self._entering = self._entering, None
            answer = self._channel.answer(token, seconds=START_SECONDS)
            self._refused = str(answer.get("error", ""))
            facts = answer.get("facts", {})
            self._facts = {name: str(facts[name]) for name in ("network", "user", "filesystem") if name in facts}
        if self._refused:
            raise NotIsolatedError(f"the sandbox cannot be entered: {self._refused}")
        record = {"mode": isolation.MODE, **self._facts}
        if wrong := isolation.shortfall(Isolation(**record), Kind.CORRECTNESS):
            raise NotIsolatedError(f"in the candidate's process, {wrong}")
        return record

    def warm(self) -> None:
        """Let the process start CUDA while this one does something else. It has no code of the candidate yet."""
        self.isolation()
        if not self._is_warm:
            self._is_warm, self._warming = True, self._channel.post("warm", profiler=False)

    def await_warm(self) -> None:
        """Wait until ``warm`` is done, if it was asked for."""
        if self._warming:
            self._channel.answer(self._warming, seconds=START_SECONDS)
            self._warming = ""

    def load(self) -> None:
        """Load the candidate's code."""
        self.isolation()
        tree, subject = self._folder / "tree", self._subject
        library = None if subject.library is None else str(tree / subject.library.name)
        self.ask("load", name=subject.name, file=str(tree / subject.candidate[0]), library=library)

    def ask(self, do: str, *, descriptors: Sequence[int] = (), **fields: Any) -> dict[str, Any]:
        """Ask the process. CandidateError if its code raised."""
        return _checked(self._channel.ask(do, seconds=LAUNCH_SECONDS, descriptors=descriptors, **fields))

    def share(self, memory: SharedMemory, layout: Layout, sets: int) -> None:
        """Give the process this memory. It maps it until ``finish``."""
        descriptor = memory.export()
        try:
            fields = {"size": memory.size, "layout": layout.record(), "sets": sets}
            self._begun = self._channel.post("prepare", descriptors=(descriptor,), **fields)
        finally:
            os.close(descriptor)

    def finish(self) -> None:
        """Wait until the memory is mapped."""
        token, self._begun = self._begun, ""
        if token:
            _checked(self._channel.answer(token, seconds=LAUNCH_SECONDS))

    def kill(self) -> None:
        """Kill the process and its descendants, which cannot leave its group. ``close`` must follow."""
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)

    def close(self, *, wait: bool = True) -> None:
        """End the process and every other one of its user. Remove its files. Without ``wait`` its memory may remain for a moment."""
        self.kill()
        if wait:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            _await_group(self._pid)
        _end_user(self._user, self._pid)
        if self._claim is not None:
            self._claim.close()
        with contextlib.suppress(OSError), (self._folder / "errors").open("rb") as errors:
            if text := errors.read(MAX_ERRORS):
                (self._log_folder / f"{self._folder.name}.err").write_bytes(text)
        with file_reads.unrecorded():  # it opens folders by their last names
            _remove(self._folder)
        if not wait and self._folder.exists():
            self.close()  # it wrote a file meanwhile

    def _copy_files(self) -> list[Path]:
        """Copy what the candidate may read to a folder of its own."""
        tree = self._folder / "tree"
        tree.mkdir(mode=0o755)
        pairs = [(self._root / file, tree / file) for file in self._subject.candidate]
        if self._subject.library is not None:
            pairs.append((self._subject.library, tree / self._subject.library.name))
        for source, copy in pairs:
            copy.parent.mkdir(parents=True, exist_ok=True)
            with file_reads.unrecorded():
                shutil.copyfile(source, copy)
        file_reads.watch_copy(tree)
        for path in tree.rglob("*"):
            path.chmod(0o555 if path.is_dir() else 0o444)
        return [copy for _, copy in pairs]

    def _spawn(self, home: Path) -> tuple[Channel, int]:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        variables = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        folders = ("HOME", "TMPDIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "CUDA_CACHE_PATH")
        variables |= dict.fromkeys(folders, str(home)) | dict.fromkeys(
            ("USER", "LOGNAME"), "candidate"
        )  # Inductor asks for a name
        package = Path(__file__).parents[2]
        errors = self._folder / "errors"
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(errors), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, there.fileno(), DESCRIPTOR),
        ]
        argv = [sys.executable, "-I", "-B", "-c", PROGRAM.format(str(package))]
        with there:
            pid = os.posix_spawn(sys.executable, argv, variables, file_actions=actions, setpgroup=0)
        return Channel(here), pid


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        raise CandidateError(str(answer["error"])[:300])
    return answer


def _remove(folder: Path) -> None:
    """Remove a folder. Parts that are too deep for Python are lifted first."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
        return
    waiting = [folder]
    with contextlib.suppress(OSError):
        for number in itertools.count():
            inner = waiting.pop()
            inner.chmod(0o700)
            for name in [entry.name for entry in os.scandir(inner) if entry.is_dir(follow_symlinks=False)]:
                waiting.append((inner / name).rename(folder / f".{number}-{len(waiting)}"))
            if not waiting:
                break
    shutil.rmtree(folder, ignore_errors=True)


def _await_group(group: int) -> None:
    """Wait until a group that was killed has ended: the driver takes a moment for each process on the GPU."""
    deadline = time.monotonic() + 2.0
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.01)


def _end_user(user: int, killed: int) -> None:
    """Kill every process of a candidate's user but the one that was ``killed``."""
    deadline = time.monotonic() + 2.0
    while user and time.monotonic() < deadline:
        pids = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and entry.stat().st_uid == user and int(entry.name) != killed:
                    pids.append(int(entry.name))
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            return
        time.sleep(0.01)
