"""How decode deals out its work: kernel/include/flashcore/decode/schedule.h itself, compiled for the host and asked."""

from __future__ import annotations

import math
import random
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests/kernel/host/decode_schedule.cpp"
MULTIPROCESSORS = 132
PIECE_KEYS, MOST_PIECES = 512, 64


@dataclass(frozen=True, kw_only=True)
class Case:
    keys: tuple[int, ...]
    tile: int = 64
    units: int = 8
    pieces: int = 0
    ctas: int = MULTIPROCESSORS
    gap: int = 0

    def tiles(self, sequence: int) -> int:
        return max(-(-self.keys[sequence] // self.tile), 1)

    @property
    def most(self) -> int:
        return MOST_PIECES if self.pieces < 0 else self.pieces

    def line(self) -> str:
        numbers = (self.tile, self.units, self.pieces, self.most, self.gap, self.ctas, len(self.keys), *self.keys)
        return " ".join(map(str, numbers))


@dataclass(frozen=True, kw_only=True)
class Piece:
    share: int
    sequence: int
    unit: int
    keys: int
    first: int
    last: int
    index: int
    count: int
    counter: int
    place: int


@dataclass(kw_only=True)
class Dealt:
    tiles: int
    pieces: list[Piece] = field(default_factory=list)

    def of_units(self) -> dict[tuple[int, int], list[Piece]]:
        found: dict[tuple[int, int], list[Piece]] = {}
        for piece in self.pieces:
            found.setdefault((piece.sequence, piece.unit), []).append(piece)
        return found


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("schedule") / "schedule"
    command = [
        "g++",
        "-std=c++17",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{ROOT / 'kernel/include'}",
        str(PROGRAM),
        "-o",
        str(out),
    ]
    subprocess.run(command, check=True, timeout=120)
    return out


def deal(program: Path, cases: list[Case]) -> list[Dealt]:
    text = "\n".join(case.line() for case in cases)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True, timeout=120)
    found: list[Dealt] = []
    for line in done.stdout.splitlines():
        words = line.split()
        assert words[0] != "tile", line
        if words[0] == "case":
            found.append(Dealt(tiles=int(words[1])))
        elif words[0] != "end":
            found[-1].pieces.append(Piece(**dict(zip(Piece.__dataclass_fields__, map(int, words), strict=True))))
    assert len(found) == len(cases)
    return found


def random_cases(count: int) -> list[Case]:
    rng = random.Random(1)
    cases = []
    for _ in range(count):
        keys = tuple(rng.choice((0, 1, rng.randrange(300), rng.randrange(9000))) for _ in range(rng.randint(1, 9)))
        cases.append(
            Case(keys=keys, tile=rng.choice((16, 32, 64, 128)), units=rng.randint(1, 5), ctas=rng.randint(1, 140),
                 pieces=rng.choice((0, 0, -1, rng.randint(1, 40))), gap=rng.choice((0, 4)))
        )  # fmt: skip
    return cases


def test_every_tile_of_every_unit_is_attended_to_once_and_pieces_are_numbered_in_order(program: Path) -> None:
    cases = random_cases(2000)
    for case, dealt in zip(cases, deal(program, cases), strict=True):
        assert dealt.tiles == sum(case.units * (case.tiles(sequence) + case.gap) for sequence in range(len(case.keys)))
        units = dealt.of_units()
        assert set(units) == {(sequence, unit) for sequence in range(len(case.keys)) for unit in range(case.units)}
        for (sequence, _), pieces in units.items():
            assert [piece.first for piece in pieces] == [0, *(piece.last for piece in pieces[:-1])]
            assert pieces[-1].last == case.tiles(sequence)
            assert [piece.index for piece in pieces] == list(range(len(pieces)))
            assert {(piece.keys, piece.count) for piece in pieces} == {(case.keys[sequence], len(pieces))}
            assert len({(piece.counter, piece.place) for piece in pieces}) == 1
            assert all(piece.first < piece.last for piece in pieces)


def test_units_in_pieces_share_neither_counters_nor_places(program: Path) -> None:
    cases = random_cases(2000)
    for case, dealt in zip(cases, deal(program, cases), strict=True):
        joined = [pieces for pieces in dealt.of_units().values() if len(pieces) > 1]
        counters = [pieces[0].counter for pieces in joined]
        assert len(set(counters)) == len(counters)
        places = [piece.place + piece.index for pieces in joined for piece in pieces]
        assert len(set(places)) == len(places)
        units = len(case.keys) * case.units
        room = 2 * case.ctas if case.pieces == 0 else units * case.most
        assert all(0 <= place < room for place in places)
        assert all(0 <= counter < (case.ctas if case.pieces == 0 else units) for counter in counters)


@pytest.mark.parametrize("pieces", [-1, 1, 3, 100])
def test_pieces_cut_by_length_do_not_depend_on_what_stands_beside_them(program: Path, pieces: int) -> None:
    keys = (4096, 0, 70, 9000, 64, 512, 131072)
    alone = [Case(keys=(one,), units=1, pieces=pieces, ctas=7) for one in keys]
    beside = Case(keys=keys, pieces=pieces)
    *single, together = deal(program, [*alone, beside])
    for sequence, dealt in enumerate(single):
        expected = [(piece.first, piece.last) for piece in dealt.pieces]
        for unit in range(beside.units):
            assert [(piece.first, piece.last) for piece in together.of_units()[sequence, unit]] == expected
    wanted = [min(math.ceil(max(n, 1) / PIECE_KEYS), MOST_PIECES) if pieces < 0 else pieces for n in keys]
    assert [len(dealt.pieces) for dealt in single] == [min(want, beside.tiles(sequence)) for sequence, want in enumerate(wanted)]


@pytest.mark.parametrize("gap", [0, 4])
@pytest.mark.parametrize("keys", [(4096,), (8192,) * 64, (131072,), (256, 32768, 777, 5000, 12000, 300)])
def test_shares_are_equal_but_for_a_tile_and_the_gaps_in_them(program: Path, keys: tuple[int, ...], gap: int) -> None:
    (dealt,) = deal(program, [Case(keys=keys, gap=gap)])
    tiles, ends = [0] * MULTIPROCESSORS, [0] * MULTIPROCESSORS
    for piece in dealt.pieces:
        tiles[piece.share] += piece.last - piece.first
        ends[piece.share] += gap
    equal = dealt.tiles / MULTIPROCESSORS
    assert all(equal - 1 - gap - most <= has <= equal + 1 for has, most in zip(tiles, ends, strict=True))


def test_units_that_shares_hold_evenly_are_not_cut(program: Path) -> None:
    (whole, halves) = deal(program, [Case(keys=(4096,) * 32, ctas=128), Case(keys=(32768,) * 8, ctas=128)])
    assert {piece.count for piece in whole.pieces} == {1}
    assert {(piece.count, piece.last - piece.first) for piece in halves.pieces} == {(2, 256)}


def test_shares_side_by_side_read_the_heads_of_the_same_keys(program: Path) -> None:
    (dealt,) = deal(program, [Case(keys=(8192,) * 64, ctas=128, gap=4)])
    assert {(piece.share % 16, piece.sequence // 4) for piece in dealt.pieces} == {(share, share) for share in range(16)}
    assert all(piece.share // 16 == piece.unit for piece in dealt.pieces)
