"""Every tile comes once and in a good order, and every KV block that a row needs is visited."""

from __future__ import annotations

import pytest
from tile_order import Problem

WARPGROUP_ROWS = 64


LENGTHS = [(1, 1), (1, 1000), (17, 17), (63, 65), (113, 203), (128, 127), (799, 3), (1023, 1024), (500, 0), (385, 640)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sequences", [1, 2, 7, 64])
@pytest.mark.parametrize(("sq", "sk"), [*LENGTHS, (2048, 70000)])
def test_every_tile_is_handed_out_once(sq: int, sk: int, sequences: int, causal: bool) -> None:
    problem = Problem(sequences=sequences, sq=sq, sk=sk, causal=causal)
    tiles = [problem.tile_at(index) for index in range(problem.row_tiles * sequences)]
    assert sorted(tiles) == [(s, r * problem.tile_m) for s in range(sequences) for r in range(problem.row_tiles)]


def test_causal_groups_start_with_their_longest_tiles() -> None:
    problem = Problem(sequences=64, sq=8192, sk=8192, causal=True, head_dim=128, tile_m=128)
    assert problem.group == 16
    per_group = problem.group * problem.row_tiles
    for first in range(0, problem.row_tiles * 64, per_group):
        rows = [problem.tile_at(first + i)[1] for i in range(per_group)]
        assert rows == sorted(rows, reverse=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("tile_m", "tile_n"), [(128, 128), (192, 128), (128, 80)])
@pytest.mark.parametrize(("sq", "sk"), LENGTHS)
def test_every_visible_pair_is_computed_and_no_block_in_vain(sq: int, sk: int, tile_m: int, tile_n: int, causal: bool) -> None:
    problem = Problem(sequences=1, sq=sq, sk=sk, causal=causal, tile_m=tile_m, tile_n=tile_n)
    for tile in range(problem.row_tiles):
        first = tile * tile_m
        rows = range(first, min(first + tile_m, sq))
        needed = problem.needed_n_blocks(first, tile_m)
        assert all(problem.visible(row) <= needed * problem.tile_n for row in rows)
        if needed:
            assert any(problem.visible(row) > (needed - 1) * problem.tile_n for row in rows)
        for group_first in range(first, first + tile_m, 64):
            unmasked = problem.unmasked_n_blocks(group_first)
            own_rows = [row for row in rows if group_first <= row < group_first + WARPGROUP_ROWS]
            assert all(problem.visible(row) >= unmasked * problem.tile_n for row in own_rows)
            fully_masked = needed - problem.needed_n_blocks(group_first, WARPGROUP_ROWS)
            assert not own_rows or 0 <= fully_masked <= 1


def test_the_last_query_sees_every_key_and_early_ones_may_see_none() -> None:
    problem = Problem(sequences=1, sq=799, sk=3, causal=True)
    assert [problem.visible(row) for row in (0, 795, 796, 797, 798)] == [0, 0, 1, 2, 3]
    assert problem.needed_n_blocks(0, 192) == 0
