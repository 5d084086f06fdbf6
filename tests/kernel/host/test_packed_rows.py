"""Check the rows of packed queries for every shape that decode serves, compiled for the host."""

from __future__ import annotations

import subprocess
from pathlib import Path

HOST = Path(__file__).parent


def test_every_query_and_head_has_one_row_and_row_tiles_are_few(tmp_path: Path) -> None:
    program = tmp_path / "packed_rows"
    includes = [f"-I{HOST / 'stubs'}", f"-I{HOST.parents[2] / 'kernel/include'}"]
    command = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", *includes, str(HOST / "packed_rows.cpp")]
    subprocess.run([*command, "-o", str(program)], check=True, timeout=120)
    *violations, last = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    assert violations == []
    assert int(last.removeprefix("shapes ")) > 10_000
