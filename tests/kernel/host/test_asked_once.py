"""Count the runtime calls of a launch: core/device.h and core/launch.cuh compiled for the host, over a fake runtime."""

from __future__ import annotations

import subprocess
from pathlib import Path

HOST = Path(__file__).parent
INCLUDE = Path(__file__).parents[3] / "kernel/include"

DEVICES = """\
device 0: status 0, 100 multiprocessors, 3 questions
device 0: status 0, 100 multiprocessors, 3 questions
device 2: status 0, 102 multiprocessors, 6 questions
device 0: status 0, 100 multiprocessors, 6 questions
device 1: status 2, 0 multiprocessors, 8 questions
device 1: status 2, 0 multiprocessors, 10 questions
device 70: status 0, 170 multiprocessors, 13 questions
device 70: status 0, 170 multiprocessors, 16 questions
device -1: status 3, 0 multiprocessors, 17 questions
"""
"""A refused device is queried again, and so is a device beyond those that are cached."""

LAUNCHES = """\
small on 0: error 0, 0 allowed, 1 launched
large on 0: error 1, 1 allowed, 1 launched
large on 0: error 0, 2 allowed, 2 launched
large on 0: error 0, 2 allowed, 3 launched
large on 63: error 0, 3 allowed, 4 launched
large on 63: error 0, 3 allowed, 5 launched
large on 0: error 0, 3 allowed, 6 launched
large on 64: error 0, 4 allowed, 7 launched
large on 64: error 0, 5 allowed, 8 launched
other on 0: error 0, 6 allowed, 9 launched
"""
"""Shared memory is allowed once per kernel and device. Nothing is launched without it."""


def test_what_does_not_change_is_asked_once(tmp_path: Path) -> None:
    program = tmp_path / "asked"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HOST / 'runtime'}", f"-I{INCLUDE}", "-x", "c++"]
    subprocess.run(["g++", *options, str(HOST / "asked_once.cpp"), "-o", str(program)], check=True, timeout=600)
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout == DEVICES + LAUNCHES
