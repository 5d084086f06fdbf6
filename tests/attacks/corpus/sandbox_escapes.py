"""Code in the sandbox that reaches out of it: for files, the network, other processes, or rights.

Each attack runs in a forked process that has entered the sandbox. It fooled the gate if its call succeeded.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.worker import sandbox

Escape = Callable[[Path, int], object]
"""Try to get out, given the folder outside and the supervisor's process. Any exception means that it failed."""
libc = ctypes.CDLL(None, use_errno=True)


def _make(name: str, escape: Escape) -> Attack:
    def attempt(folder: Path) -> bool:
        secret, tree, home = folder / "definition.py", folder / "tree", folder / "home"
        secret.write_text("seed = 1", encoding="utf-8")
        tree.mkdir()
        home.mkdir()
        (tree / "candidate.py").write_text("", encoding="utf-8")
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(BaseException):
                _enter(tree, home, escape, folder)
                status = 0
            os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    return Attack(name=name, attempt=attempt)


def _enter(tree: Path, home: Path, escape: Escape, folder: Path) -> None:
    user = 64_998 if os.geteuid() == 0 else 0
    if user:
        for parent in (folder, *folder.parents):
            with contextlib.suppress(OSError):
                parent.chmod(parent.stat().st_mode | 0o055)
        os.chown(home, user, user)
    supervisor = os.getppid()
    sandbox.enter([tree], home, user=user)
    os.chdir(home if home.exists() else "/")
    escape(folder, supervisor)


def _call(number_or_result: int) -> None:
    if number_or_result < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _read(path: str) -> Escape:
    return lambda folder, supervisor: (folder / path).read_text(encoding="utf-8")


def _write(path: str) -> Escape:
    return lambda folder, supervisor: (folder / path).write_text("x", encoding="utf-8")


def _link(folder: Path, _: int) -> None:
    Path("link").symlink_to(folder / "definition.py")
    Path("link").read_text(encoding="utf-8")


def _socket(family: int, kind: int, address: object) -> Escape:
    def escape(_: Path, __: int) -> None:
        with socket.socket(family, kind) as end:
            end.connect(address)

    return escape


def _listen(_: Path, __: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as end:
        end.bind(("127.0.0.1", 0))


def _process(file: str) -> Escape:
    return lambda folder, supervisor: Path(f"/proc/{supervisor}/{file}").read_bytes()


def _leave_group(_: Path, __: int) -> None:
    os.setpgid(0, 0)
    if os.getpgid(0) != os.getpid():
        raise OSError("still in the group")


def _signal(number: int) -> Escape:
    return lambda folder, supervisor: os.kill(supervisor, number)


ESCAPES: tuple[tuple[str, Escape], ...] = (
    ("reads the definition", _read("definition.py")),
    ("reads the definition by a path with dots", _read("tree/../definition.py")),
    ("reads the definition through a link", _link),
    ("lists the folder of the supervisor", lambda folder, _: list(folder.iterdir())),
    ("writes next to its home", _write("result.json")),
    ("writes into the definition", _write("definition.py")),
    ("writes into its own file", _write("tree/candidate.py")),
    ("adds a file to the tree", _write("tree/flashcore_ci.py")),
    ("removes its file", lambda folder, _: (folder / "tree/candidate.py").unlink()),
    ("renames the definition into its home", lambda folder, _: (folder / "definition.py").rename("stolen")),
    ("links the definition into its home", lambda folder, _: os.link(folder / "definition.py", "stolen")),
    ("leaves a file in /dev/shm", lambda folder, _: Path(f"/dev/shm/{folder.name}").write_text("x", encoding="utf-8")),
    ("leaves a file in /var/tmp", lambda folder, _: Path(f"/var/tmp/{folder.name}").write_text("x", encoding="utf-8")),
    ("sends a datagram", _socket(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 9))),
    ("opens an IPv6 socket", lambda *_: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).close()),
    ("opens a raw socket", lambda *_: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()),
    ("listens", _listen),
    ("reads the supervisor's memory", lambda _, supervisor: Path(f"/proc/{supervisor}/mem").open("rb").close()),
    ("reads the supervisor's descriptors", lambda _, supervisor: list(Path(f"/proc/{supervisor}/fd").iterdir())),
    ("reads the supervisor's working folder", lambda _, supervisor: Path(f"/proc/{supervisor}/cwd").readlink()),
    ("probes the supervisor with signal 0", _signal(0)),
    ("continues the supervisor", _signal(signal.SIGCONT)),
    ("leaves its session", lambda *_: os.setsid()),
    ("leaves its process group", _leave_group),
    ("makes a name space", lambda *_: _call(libc.unshare(0x10000000))),
    ("opens the supervisor by pidfd", lambda _, supervisor: os.close(os.pidfd_open(supervisor))),
)  # fmt: skip
ATTACKS = tuple(_make(name, escape) for name, escape in ESCAPES)


def member(numbers: random.Random) -> Attack:
    """Write or read at a random place outside."""
    parts = [f"{numbers.getrandbits(32):x}" for _ in range(numbers.randrange(1, 4))]
    up = "/".join([".."] * numbers.randrange(1, 3))
    path = f"tree/{up}/definition.py" if up == ".." else "definition.py"
    return _make("reads at random", _read(path)) if numbers.random() < 0.5 else _make("writes at random", _write("-".join(parts)))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter no sandbox."""
    monkeypatch.setattr(sandbox, "enter", lambda readable, writable, *, user: None)


CLASS = AttackClass(name="code that leaves the sandbox", attacks=ATTACKS, member=member, mutant=mutant)
