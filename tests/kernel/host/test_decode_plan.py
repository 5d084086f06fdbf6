"""Check the host's plans of decode: kernel/include/flashcore/decode/plan.h, compiled for the host."""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

HOST = Path(__file__).parent
INCLUDE = Path(__file__).parents[3] / "kernel/include"
MULTIPROCESSORS = 132
TILES = {64: (128, 8), 128: (64, 8), 256: (32, 4)}  # by head dimension: keys of a tile, consumer warps


@dataclass(frozen=True, kw_only=True)
class Problem:
    batch: int
    heads: int = 32
    kv_heads: int = 8
    sq: int = 1
    capacity: int
    head_dim: int = 128
    deterministic: bool = False
    splits: int = 0
    max_ctas: int = 0

    def line(self) -> str:
        shape = (self.head_dim, *TILES[self.head_dim], self.batch, self.heads, self.kv_heads, self.sq, self.capacity)
        return " ".join(map(str, (*shape, int(self.deterministic), self.splits, MULTIPROCESSORS, self.max_ctas)))


@dataclass(frozen=True, kw_only=True)
class Plan:
    ctas: int
    gap: int
    row_work_tiles: int
    rows: int
    splits: int
    max_splits: int
    counters: int
    partials: int


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plan") / "plan"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{HOST / 'stubs'}", f"-I{INCLUDE}", "-x", "c++"]
    subprocess.run(["g++", *options, str(HOST / "decode_plan.cpp"), "-o", str(out)], check=True, timeout=600)
    return out


def plans_of(program: Path, problems: list[Problem]) -> list[Plan]:
    text = "\n".join(problem.line() for problem in problems)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True, timeout=600)
    rows = [map(int, line.split()) for line in done.stdout.splitlines()]
    return [Plan(**dict(zip(Plan.__dataclass_fields__, row, strict=True))) for row in rows]


@pytest.mark.parametrize(
    ("problem", "ctas", "gap"),
    [
        (Problem(batch=32, capacity=4096), 128, 4),
        (Problem(batch=16, heads=16, kv_heads=16, capacity=8192, head_dim=64), 128, 4),
        (Problem(batch=64, capacity=8192), 128, 4),
        (Problem(batch=32, heads=32, kv_heads=32, capacity=4096), 128, 4),
        (Problem(batch=32, capacity=32768), 128, 4),
        (Problem(batch=8, capacity=32768), 128, 0),
        (Problem(batch=1, capacity=131072), 128, 0),
        (Problem(batch=1, capacity=4096), 128, 0),
        (Problem(batch=5, capacity=4096), 128, 4),
        (Problem(batch=5, kv_heads=1, capacity=4096), 130, 0),
        (Problem(batch=7, heads=30, kv_heads=10, capacity=4096), 130, 4),
        (Problem(batch=7, heads=34, kv_heads=17, capacity=4096), 132, 4),
        (Problem(batch=1, heads=1, kv_heads=1, capacity=0), 5, 0),
    ],
    ids=repr,
)
def test_work_tiles_split_evenly_or_heads_get_equal_ctas_or_all_multiprocessors_work(
    program: Path, problem: Problem, ctas: int, gap: int
) -> None:
    (plan,) = plans_of(program, [problem])
    assert (plan.ctas, plan.gap) == (ctas, gap)


def test_a_work_tile_has_up_to_sixteen_rows_per_consumer_warp(program: Path) -> None:
    sizes = [(1, 4), (4, 4), (5, 4), (16, 8), (16, 40)]
    plans = plans_of(program, [Problem(batch=2, heads=group, kv_heads=1, sq=sq, capacity=100) for sq, group in sizes])
    assert [(plan.rows, plan.row_work_tiles) for plan in plans] == [(16, 1), (16, 1), (32, 1), (128, 1), (128, 5)]


def test_random_problems_have_room_for_every_split_and_few_idle_multiprocessors(program: Path) -> None:
    rng = random.Random(1)
    problems = []
    for _ in range(2000):
        kv_heads = rng.choice((1, 2, 3, 8, 32))
        problems.append(
            Problem(batch=rng.randint(1, 100), kv_heads=kv_heads, heads=kv_heads * rng.choice((1, 4, 7, 16)), sq=rng.randint(1, 16),
                    capacity=rng.choice((0, 1, 700, 4096, 32768)), head_dim=rng.choice((64, 128, 256)), deterministic=rng.random() < 0.2,
                    splits=rng.choice((0, 0, 0, 3, 5000)), max_ctas=rng.choice((0, 0, 1, 20, 500)))
        )  # fmt: skip
    for problem, plan in zip(problems, plans_of(program, problems), strict=True):
        cap = min(problem.max_ctas or MULTIPROCESSORS, MULTIPROCESSORS)
        rows = problem.sq * problem.heads // problem.kv_heads
        heads = 2 if problem.head_dim == 64 and rows <= 16 and problem.kv_heads % 2 == 0 else 1
        work_tiles = problem.batch * problem.kv_heads // heads * plan.row_work_tiles
        tiles = work_tiles * (max(-(-problem.capacity * heads // TILES[problem.head_dim][0]), 1) + 4)
        assert min(cap - cap // 16 + (cap >= 16), tiles) <= plan.ctas <= cap
        even = [ctas for ctas in range(cap, cap - cap // 16, -1) if work_tiles % ctas == 0 or ctas % work_tiles == 0]
        assert not even or plan.ctas == min(even[0], tiles)
        assert plan.rows * plan.row_work_tiles // heads >= rows > plan.rows * (plan.row_work_tiles - 1)
        if plan.splits == 0:
            assert (plan.counters, plan.partials) == (plan.ctas, 2 * plan.ctas)
        else:
            assert (plan.counters, plan.partials) == (work_tiles, work_tiles * plan.max_splits)
            assert plan.max_splits >= 1
