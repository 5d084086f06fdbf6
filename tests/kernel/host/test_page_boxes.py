"""Check the TMA boxes of keys in pages against a model of the tensor map: each key once, zeros past the last key, no other access."""

from __future__ import annotations

import math
import random
import subprocess
from pathlib import Path

import pytest

HOST = Path(__file__).parent
INCLUDE = Path(__file__).parents[3] / "kernel/include"
BATCH_ROWS = 2**30
WRAP_STRIDE = 2**34
INT_MAX = 2**31 - 1
TILES = (64, 128)
PAGES = (1, 2, 3, 4, 7, 8, 16, 20, 32, 48, 64, 100, 128, 256, 528, 1000, 1024, 65536)
LENGTHS = (0, 1, 2, 15, 16, 17, 47, 48, 49, 127, 128, 129, 528, 529, 1023, 2048, 2500)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("boxes") / "boxes"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HOST / 'stubs'}", f"-I{INCLUDE}"]
    subprocess.run(["g++", *options, str(HOST / "page_boxes.cpp"), "-o", str(out)], check=True, timeout=120)
    return out


def compute_boxes(program: Path, cases: list[tuple[int, int, int]]) -> list[tuple[list[tuple[int, ...]], int]]:
    text = "\n".join(" ".join(map(str, case)) for case in cases)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True, timeout=120)
    found: list[tuple[list[tuple[int, ...]], int]] = []
    boxes: list[tuple[int, ...]] = []
    for line in done.stdout.splitlines():
        if line.startswith("end"):
            found.append((boxes, int(line.split()[1])))
            boxes = []
        else:
            boxes.append(tuple(map(int, line.split())))
    return found


def read_box(box: tuple[int, ...], box_rows: int, page: int, row_bytes: int) -> list[int | None]:
    """Return the row of the page that each row of the box reads, or None for zeros. The map is that of attention/paged_launcher.h."""
    _, first, end = box
    assert 0 <= end <= page, "the map has no such end"
    rows: list[int | None] = []
    for row in range(first, first + box_rows):
        if not 0 <= row < BATCH_ROWS:
            rows.append(None)
            continue
        offset = (row * row_bytes + end * row_bytes + BATCH_ROWS * (WRAP_STRIDE - row_bytes)) % 2**64
        assert offset % row_bytes == 0
        rows.append(offset // row_bytes)
    return rows


@pytest.mark.parametrize("tile", TILES)
def test_every_key_is_read_once_and_nothing_else(program: Path, tile: int) -> None:
    cases = [(page, math.gcd(page, tile), keys) for page in PAGES for keys in LENGTHS]
    cases += [(page, tile, keys) for page in PAGES for keys in LENGTHS if keys <= page]  # one page per sequence: whole tiles
    for (page, box_rows, keys), (boxes, _) in zip(cases, compute_boxes(program, cases), strict=True):
        for number, box in enumerate(boxes):
            for row, source in enumerate(read_box(box, box_rows, page, row_bytes=256)):
                key = number * box_rows + row
                if key >= keys:
                    assert source is None, "a key past the length must be zeros"
                else:
                    assert (box[0], source) == divmod(key, page)


def test_division_by_a_multiplication(program: Path) -> None:
    rng = random.Random(1)
    sizes = [*PAGES, 2**30, 2**30 - 1, 2**29 + 1, *(rng.randint(1, 2**30) for _ in range(2000))]
    found = compute_boxes(program, [(size, 2**28, 1) for size in sizes if size > 0])
    assert [last for _, last in found] == [INT_MAX // size for size in sizes]
