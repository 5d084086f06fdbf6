"""An append to a cache keeps its older rows: kernel/include/flashcore/decode/split_scheduler.h compiled for the host."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_rows_that_do_not_fit_are_dropped(tmp_path: Path) -> None:
    program = tmp_path / "append"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", f"-I{ROOT / 'kernel/include'}"]
    source = ROOT / "tests/kernel/host/decode_append.cpp"
    subprocess.run(["g++", *options, str(source), "-o", str(program)], check=True, timeout=600)
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=600)
    assert done.stderr == ""
    cases = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    for length, added, room, after, first in cases:
        kept = min(max(length, 0), room)
        assert first == kept, f"row {first} of {kept} older rows is overwritten"
        assert after == min(kept + added, room)
    assert any(length + added > room > length for length, added, room, _, _ in cases)
