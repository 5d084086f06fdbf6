"""Count the runtime calls of a launch: core/device.h, core/launch.cuh and core/kept_maps.h compiled for the host, over a fake runtime."""

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

MAPS = """\
first: status 0, 1 encoded, of its address: 1
again: status 0, 1 encoded, of its address: 1
address: status 0, 2 encoded, of its address: 1
extent: status 0, 3 encoded, of its address: 1
stride: status 0, 4 encoded, of its address: 1
refused: status 1, 4 encoded, of its address: 0
refused: status 1, 4 encoded, of its address: 0
box: status 0, 5 encoded, of its address: 1
swizzle: status 0, 6 encoded, of its address: 1
dtype: status 0, 7 encoded, of its address: 1
device: status 0, 8 encoded, of its address: 1
null: status 1, 8 encoded, of its address: 1
first: status 0, 9 encoded, of its address: 1
again: status 0, 9 encoded, of its address: 1
thread: status 0, 10 encoded, of its address: 1
"""
"""A map is encoded once per thread, device and everything about its tensor. A refused one is not kept."""


def test_what_does_not_change_is_asked_once(tmp_path: Path) -> None:
    program = tmp_path / "asked"
    options = [
        "-std=c++17",
        "-O1",
        "-pthread",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{HOST / 'runtime'}",
        f"-I{INCLUDE}",
        "-x",
        "c++",
    ]
    subprocess.run(["g++", *options, str(HOST / "asked_once.cpp"), "-o", str(program)], check=True, timeout=600)
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout == DEVICES + LAUNCHES + MAPS
