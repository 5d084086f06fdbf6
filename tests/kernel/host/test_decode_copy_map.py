"""Check which bytes the producer warps copy with cp.async: each once, at TMA's place, without bank conflicts."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

HOST = Path(__file__).parent
INCLUDE = Path(__file__).parents[3] / "kernel/include"
UNIT = 16
LANES = 32
QUARTER = 8  # lanes that store 128 bytes at once


class Map(NamedTuple):
    head_dim: int
    element: int  # bytes
    tile_keys: int
    warps: int

    def place(self, row: int, unit: int) -> int:
        """Return where TMA puts a unit: columns of atoms, then rows, and bits 4 and up of the address flipped by bits 7 and up."""
        row_bytes = min(128, self.head_dim * self.element)
        column, rest = divmod(unit * UNIT, row_bytes)
        offset = column * self.tile_keys * row_bytes + row * row_bytes + rest
        return offset ^ (offset >> 7) % (row_bytes // UNIT) * UNIT


class Copy(NamedTuple):
    warp: int
    lane: int
    number: int
    row: int
    unit: int
    offset: int
    source: int  # the row whose address the lane gets


def read(lines: list[str]) -> Iterator[tuple[Map, list[Copy]]]:
    copies: list[Copy] = []
    for line in lines:
        if line.startswith("map"):
            copies = []
            yield Map(*map(int, line.split()[1:])), copies
        else:
            copies.append(Copy(*map(int, line.split())))


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Map, list[Copy]]]:
    out = tmp_path_factory.mktemp("copies") / "copies"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HOST / 'stubs'}", f"-I{INCLUDE}"]
    subprocess.run(["g++", *options, str(HOST / "decode_copy_map.cpp"), "-o", str(out)], check=True, timeout=600)
    done = subprocess.run([out], capture_output=True, text=True, check=True, timeout=600)
    return list(read(done.stdout.splitlines()))


def test_every_unit_of_a_tile_is_copied_once_to_the_place_of_tma(maps: list[tuple[Map, list[Copy]]]) -> None:
    assert len(maps) == 18
    for shape, copies in maps:
        units = shape.head_dim * shape.element // UNIT
        assert sorted((c.row, c.unit) for c in copies) == [(row, unit) for row in range(shape.tile_keys) for unit in range(units)]
        for c in copies:
            assert c.offset == shape.place(c.row, c.unit), (shape, c)
            assert c.source == c.row, (shape, c)


def test_a_copy_reads_whole_rows_and_writes_without_bank_conflicts(maps: list[tuple[Map, list[Copy]]]) -> None:
    for shape, copies in maps:
        together = defaultdict(list)
        for c in copies:
            together[c.warp, c.number].append(c)
        for lanes in together.values():
            assert [c.lane for c in lanes] == list(range(LANES))
            units = shape.head_dim * shape.element // UNIT
            assert all(c.unit == c.lane % units for c in lanes)
            for first in range(0, LANES, QUARTER):
                banks = {c.offset // UNIT % QUARTER for c in lanes[first : first + QUARTER]}
                assert len(banks) == QUARTER, (shape, lanes[first])
