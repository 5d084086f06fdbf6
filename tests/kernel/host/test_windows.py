"""Check which KV blocks are loaded, skipped and masked through windows and chunks, against the definition of a visible key.

attention/{tile_scheduler,warpgroup_work}.h and core/window.h are compiled for the host.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

HOST = Path(__file__).parent
INCLUDE = Path(__file__).parents[3] / "kernel/include"
ROWS = 64
ATTEND, ZEROS, OUT_OF_RANGE = range(3)
TILES = [(192, 128), (128, 128), (128, 64)]

Case = tuple[int, int, int, int, int, int, int]
"""tile_m, tile_n, queries, keys, left, right, chunk."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("windows") / "windows"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HOST / 'stubs'}", f"-I{INCLUDE}"]
    subprocess.run(["g++", *options, str(HOST / "windows.cpp"), "-o", str(out)], check=True, timeout=600)
    return out


def see(case: Case, row: int) -> tuple[int, int]:
    """Return the first visible key of a row and the end, (0, 0) if there is none."""
    _, _, sq, sk, left, right, chunk = case
    position = row + sk - sq
    first, last = 0, sk
    if left >= 0:
        first = max(first, position - left)
    if right >= 0:
        last = min(last, position + right + 1)
    if chunk > 0:
        start = position // chunk * chunk
        first, last = max(first, start), min(last, start + chunk)
    return (first, last) if first < last else (0, 0)


def check(case: Case, lines: list[list[int]]) -> None:
    tile_m, tile_n, sq, *_ = case
    assert [line[0] for line in lines] == list(range(0, sq, tile_m))
    for row, begin, end, *numbers in lines:
        seen = [see(case, i) for i in range(row, min(row + tile_m, sq))]
        visible = [one for one in seen if one != (0, 0)]
        if visible:  # no block is loaded that no row sees
            assert (begin, end) == (min(a for a, _ in visible) // tile_n, -(-max(b for _, b in visible) // tile_n)), case
        else:
            assert begin == end
        for warpgroup, work in enumerate(zip(*(iter(numbers),) * 6, strict=True)):
            kind, n_blocks, fully_masked, unmasked, first, first_unmasked = work
            own = seen[warpgroup * ROWS : (warpgroup + 1) * ROWS]
            assert kind == (ZEROS if begin == end else ATTEND if own else OUT_OF_RANGE)
            if kind != ATTEND:
                continue
            start = n_blocks - fully_masked - 1
            assert (n_blocks, first) == (end, begin)
            assert fully_masked in {0, 1}
            assert first <= first_unmasked <= unmasked <= start
            assert all(b <= (start + 1) * tile_n for _, b in own)
            for block in range(first_unmasked, unmasked):
                assert all(a <= block * tile_n and (block + 1) * tile_n <= b for a, b in own)
            inside = [x for x in range(first, start) if all(a <= x * tile_n and (x + 1) * tile_n <= b for a, b in own)]
            if len(own) == ROWS:  # nothing is masked without need
                assert len(inside) == unmasked - first_unmasked


def make_cases() -> list[Case]:
    rng = random.Random(2)
    sides = (-1, 0, 1, 5, 63, 64, 127, 128, 200, 1000)
    cases: list[Case] = [(*tile, 700, 700, left, right, 0) for tile in TILES for left in sides for right in sides]
    for _ in range(400):
        sq, sk = rng.choice((1, 2, 64, 129, rng.randrange(1, 900))), rng.choice((0, 1, 128, rng.randrange(1, 1500)))
        chunk = rng.choice((0, 0, 1, 7, 64, 100, 128, 300, 5000))
        cases.append((*rng.choice(TILES), sq, sk, rng.choice(sides), rng.choice(sides), chunk))
    return cases


def test_tiles_visit_what_their_rows_see(program: Path) -> None:
    cases = make_cases()
    text = "\n".join(" ".join(map(str, case)) for case in cases)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True, timeout=600)
    outputs = done.stdout.split("case\n")[1:]
    for case, output in zip(cases, outputs, strict=True):
        lines = output.splitlines()
        assert lines.pop() == "end"
        check(case, [[int(word) for word in line.split()] for line in lines])
