"""Check how decode splits its work: kernel/include/flashcore/decode/split_scheduler.h, compiled for the host."""

from __future__ import annotations

import math
import random
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests/kernel/host/decode_schedule.cpp"
MULTIPROCESSORS = 132
SPLIT_KEYS, MAX_SPLITS = 512, 64


@dataclass(frozen=True, kw_only=True)
class Case:
    keys: tuple[int, ...]
    tile: int = 64
    work_tiles: int = 8
    splits: int = 0
    ctas: int = MULTIPROCESSORS
    gap: int = 0

    def tiles(self, sequence: int) -> int:
        return max(-(-self.keys[sequence] // self.tile), 1)

    @property
    def max_splits(self) -> int:
        return MAX_SPLITS if self.splits < 0 else self.splits

    def line(self) -> str:
        numbers = (self.tile, self.work_tiles, self.splits, self.max_splits, self.gap, self.ctas, len(self.keys), *self.keys)
        return " ".join(map(str, numbers))


@dataclass(frozen=True, kw_only=True)
class Split:
    cta: int
    sequence: int
    work_tile: int
    keys: int
    first: int
    last: int
    split_index: int
    split_count: int
    counter: int
    first_partial: int


@dataclass(kw_only=True)
class WorkList:
    tiles: int
    splits: list[Split] = field(default_factory=list)

    def by_work_tile(self) -> dict[tuple[int, int], list[Split]]:
        found: dict[tuple[int, int], list[Split]] = {}
        for split in self.splits:
            found.setdefault((split.sequence, split.work_tile), []).append(split)
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
    subprocess.run(command, check=True, timeout=600)
    return out


def split_work(program: Path, cases: list[Case]) -> list[WorkList]:
    text = "\n".join(case.line() for case in cases)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True, timeout=600)
    found: list[WorkList] = []
    for line in done.stdout.splitlines():
        words = line.split()
        assert words[0] != "tile", line
        if words[0] == "case":
            found.append(WorkList(tiles=int(words[1])))
        elif words[0] != "end":
            found[-1].splits.append(Split(**dict(zip(Split.__dataclass_fields__, map(int, words), strict=True))))
    assert len(found) == len(cases)
    return found


def random_cases(count: int) -> list[Case]:
    rng = random.Random(1)
    cases = []
    for _ in range(count):
        keys = tuple(rng.choice((0, 1, rng.randrange(300), rng.randrange(9000))) for _ in range(rng.randint(1, 9)))
        cases.append(
            Case(keys=keys, tile=rng.choice((16, 32, 64, 128)), work_tiles=rng.randint(1, 5), ctas=rng.randint(1, 140),
                 splits=rng.choice((0, 0, -1, rng.randint(1, 40))), gap=rng.choice((0, 4)))
        )  # fmt: skip
    return cases


def test_every_tile_is_processed_once_and_splits_are_numbered_in_order(program: Path) -> None:
    cases = random_cases(2000)
    for case, work_list in zip(cases, split_work(program, cases), strict=True):
        assert work_list.tiles == sum(case.work_tiles * (case.tiles(sequence) + case.gap) for sequence in range(len(case.keys)))
        work_tiles = work_list.by_work_tile()
        assert set(work_tiles) == {
            (sequence, work_tile) for sequence in range(len(case.keys)) for work_tile in range(case.work_tiles)
        }
        for (sequence, _), splits in work_tiles.items():
            assert [split.first for split in splits] == [0, *(split.last for split in splits[:-1])]
            assert splits[-1].last == case.tiles(sequence)
            assert [split.split_index for split in splits] == list(range(len(splits)))
            assert {(split.keys, split.split_count) for split in splits} == {(case.keys[sequence], len(splits))}
            assert len({(split.counter, split.first_partial) for split in splits}) == 1
            assert all(split.first < split.last for split in splits)


def test_work_tiles_with_splits_share_neither_counters_nor_partials(program: Path) -> None:
    cases = random_cases(2000)
    for case, work_list in zip(cases, split_work(program, cases), strict=True):
        fixed_up = [splits for splits in work_list.by_work_tile().values() if len(splits) > 1]
        counters = [splits[0].counter for splits in fixed_up]
        assert len(set(counters)) == len(counters)
        partials = [split.first_partial + split.split_index for splits in fixed_up for split in splits]
        assert len(set(partials)) == len(partials)
        work_tiles = len(case.keys) * case.work_tiles
        slots = 2 * case.ctas if case.splits == 0 else work_tiles * case.max_splits
        assert all(0 <= first_partial < slots for first_partial in partials)
        assert all(0 <= counter < (case.ctas if case.splits == 0 else work_tiles) for counter in counters)


def test_sequences_that_are_left_out_change_nothing(program: Path) -> None:
    """Packed queries of a prefill among those of decode. The others are split as if they were alone."""
    rng = random.Random(2)
    cases, places = [], []
    for case in random_cases(1000):
        count = len(case.keys) + rng.randint(1, 70)
        places.append(sorted(rng.sample(range(count), len(case.keys))))
        keys = [-1] * count
        for place, one in zip(places[-1], case.keys, strict=True):
            keys[place] = one
        cases.append(replace(case, keys=tuple(keys), splits=0))
    cases += [Case(keys=(-1,)), Case(keys=(-1,) * 100, gap=4)]
    *found, none, no_hundred = split_work(program, cases)
    assert (none, no_hundred) == (WorkList(tiles=0), WorkList(tiles=0))
    alone = split_work(program, [replace(case, splits=0) for case in random_cases(1000)])
    for where, work_list, expected in zip(places, found, alone, strict=True):
        assert work_list.tiles == expected.tiles
        for split, other in zip(work_list.splits, expected.splits, strict=True):
            assert split.sequence == where[other.sequence]
            assert replace(other, sequence=split.sequence) == split


@pytest.mark.parametrize("splits", [-1, 1, 3, 100])
def test_splits_by_length_do_not_depend_on_other_sequences(program: Path, splits: int) -> None:
    keys = (4096, 0, 70, 9000, 64, 512, 131072)
    alone = [Case(keys=(one,), work_tiles=1, splits=splits, ctas=7) for one in keys]
    neighbours = Case(keys=keys, splits=splits)
    *single, together = split_work(program, [*alone, neighbours])
    for sequence, work_list in enumerate(single):
        expected = [(split.first, split.last) for split in work_list.splits]
        for work_tile in range(neighbours.work_tiles):
            assert [(split.first, split.last) for split in together.by_work_tile()[sequence, work_tile]] == expected
    wanted = [min(math.ceil(max(n, 1) / SPLIT_KEYS), MAX_SPLITS) if splits < 0 else splits for n in keys]
    assert [len(work_list.splits) for work_list in single] == [
        min(want, neighbours.tiles(sequence)) for sequence, want in enumerate(wanted)
    ]


@pytest.mark.parametrize("gap", [0, 4])
@pytest.mark.parametrize("keys", [(4096,), (8192,) * 64, (131072,), (256, 32768, 777, 5000, 12000, 300)])
def test_cta_ranges_are_equal_except_for_a_tile_and_their_gaps(program: Path, keys: tuple[int, ...], gap: int) -> None:
    (work_list,) = split_work(program, [Case(keys=keys, gap=gap)])
    tiles, ends = [0] * MULTIPROCESSORS, [0] * MULTIPROCESSORS
    for split in work_list.splits:
        tiles[split.cta] += split.last - split.first
        ends[split.cta] += gap
    equal = work_list.tiles / MULTIPROCESSORS
    assert all(equal - 1 - gap - gaps <= has <= equal + 1 for has, gaps in zip(tiles, ends, strict=True))


def test_work_tiles_that_fill_cta_ranges_evenly_are_not_split(program: Path) -> None:
    (whole, halves) = split_work(program, [Case(keys=(4096,) * 32, ctas=128), Case(keys=(32768,) * 8, ctas=128)])
    assert {split.split_count for split in whole.splits} == {1}
    assert {(split.split_count, split.last - split.first) for split in halves.splits} == {(2, 256)}


def test_neighbouring_cta_ranges_read_the_heads_of_the_same_keys(program: Path) -> None:
    (work_list,) = split_work(program, [Case(keys=(8192,) * 64, ctas=128, gap=4)])
    assert {(split.cta % 16, split.sequence // 4) for split in work_list.splits} == {(cta, cta) for cta in range(16)}
    assert all(split.cta // 16 == split.work_tile for split in work_list.splits)
