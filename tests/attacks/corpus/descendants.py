"""Children that leave a process behind: when they end, when they are stopped, and when the gate is killed."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.adapters import process, supervisor

LEAVE = """
import os, signal, sys, time
def sleeper():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
    time.sleep(600)
    os._exit(0)
"""
STEPS = {
    "fork": "if os.fork(): os._exit(0)",
    "fork and wait a little": "if os.fork(): time.sleep(0.02); os._exit(0)",
    "setsid": "try: os.setsid()\nexcept OSError: pass",
    "a group of its own": "try: os.setpgid(0, 0)\nexcept OSError: pass",
    "no death signal": "import ctypes; ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)",
    "no output": "os.closerange(0, 3)",
    "another folder": "os.chdir('/')",
    "another name": "import ctypes; ctypes.CDLL(None).prctl(15, b'kworker', 0, 0, 0)",
    "a lower priority": "os.nice(5)",
    "every descriptor closed": "os.closerange(3, 256)",
}
WRITTEN = {
    "a double fork": ("fork", "setsid", "fork"),
    "a session of its own": ("setsid",),
    "a triple fork": ("fork", "setsid", "fork", "fork"),
    "a group of its own": ("a group of its own",),
    "a double fork without a death signal": ("no death signal", "fork", "no death signal", "setsid", "fork", "no death signal"),
    "a daemon": ("fork", "setsid", "fork", "another folder", "no output", "every descriptor closed"),
    "a disguise": ("fork", "setsid", "another name", "fork", "another name"),
    "sessions in sessions": ("fork", "setsid", "fork", "setsid", "fork", "setsid", "fork"),
    "late parents": ("fork and wait a little", "setsid", "fork and wait a little"),
}


def attempt(steps: tuple[str, ...]) -> Callable[[Path], bool]:
    """True if the sleeper is alive after its child ended."""

    def fooled(folder: Path) -> bool:
        pids = folder / "pids"
        body = "\n".join(STEPS[step] for step in steps)
        code = f"{LEAVE}\nif os.fork() == 0:\n    exec({body!r})\n    sleeper()\n"
        code += "while not (os.path.exists(sys.argv[1]) and os.path.getsize(sys.argv[1])): time.sleep(0.005)\n"
        process.run([sys.executable, "-I", "-S", "-c", code, str(pids)], logs=folder, name="child", timeout=300)
        left = [int(line) for line in pids.read_text().split() if is_alive(int(line))]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return bool(left)

    return fooled


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


def member(draw: random.Random) -> Attack:
    middle = [draw.choice(list(STEPS)) for _ in range(draw.randrange(0, 4))]
    steps = ("fork", "setsid", *middle, "fork")
    return Attack(name=", ".join(steps), attempt=attempt(steps))


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Start children with a supervisor that ends the group only."""
    text = Path(supervisor.__file__).read_text(encoding="utf-8")
    text, found = re.subn(r"(def end_all\(\)[^\n]*\n)", r"\1    return\n", text)
    assert found == 1
    file = Path(tempfile.gettempdir()) / f"supervisor-{uuid.uuid4().hex}.py"
    file.write_text(text.replace("if orphaned:", "if False:"), encoding="utf-8")
    patch.setattr(supervisor, "__file__", str(file))
    patch.setattr(process, "_plain", None)


CLASS = AttackClass(
    name="descendants",
    attacks=tuple(Attack(name=name, attempt=attempt(steps)) for name, steps in WRITTEN.items()),
    member=member,
    mutant=mutant,
)
