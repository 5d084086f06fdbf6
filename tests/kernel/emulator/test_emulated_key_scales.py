"""Caches of E4M3 with a scale for each key or page: values against float64, hard scales, appended bits, and planted defects."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from emulated import Library, ViolationError
from emulated_cases import add_workspace
from emulated_key_scales import Scaled
from emulator_build import build

pytestmark = pytest.mark.nightly
COPIES, CONSUMER, PRODUCTS, PRODUCER, PAGE_TABLE = (
    f"flashcore/decode/{name}.cuh" for name in ("key_scale_producer", "fp8_consumer", "key_scale_products", "producer", "pages")
)

TOKENS = Scaled(64, (300, 70, 1), heads=8, kv_heads=4, max_ctas=3, splits=3)
PAGES = Scaled(64, (300, 70), heads=4, page_size=16, per_page=True)
EMPTY = Scaled(64, (0, 0), page_size=16)  # has an empty page table
LONG = Scaled(64, (1500,), heads=1, kv_heads=1, max_ctas=1)  # its tiles use each slot again
CASES = [
    ("d64", (TOKENS, PAGES, LONG, replace(PAGES, lengths=(2000, 70), per_page=False), replace(TOKENS, lengths=(300, 0, 1)), replace(TOKENS, page_size=16, heads_first=True), replace(PAGES, new_keys=3, sq=3), replace(TOKENS, lengths=(300, 70, 3), dtype="bf16", sq=5, new_keys=2), replace(PAGES, dtype="e4m3"), EMPTY)),
    ("d128", (replace(TOKENS, head_dim=128, heads=12, sq=4, page_size=32), Scaled(128, (300, 70), "bf16", page_size=64, per_page=True, new_keys=2), Scaled(128, (300, 70), "e4m3", heads_first=True))),
    ("d256", (Scaled(256, (300, 70), page_size=16), Scaled(256, (70, 30), "bf16", heads=12, kv_heads=1, page_size=128, per_page=True), Scaled(256, (200, 30), "e4m3", sq=2))),
]  # fmt: skip


def load(tmp_path: Path, name: str, mutations: dict[str, tuple[str, str]] | None = None) -> Library:
    return Library(build(tmp_path / f"{name}.so", [f"flashcore_decode_key_scales_{name}"], ["decode"], mutations=mutations))


@pytest.mark.parametrize(("name", "cases"), CASES)
def test_every_kernel_takes_scales_of_tokens_or_pages(tmp_path: Path, name: str, cases: tuple[Scaled, ...]) -> None:
    library = load(tmp_path, name)
    for case, seed in itertools.product(cases, (1, 2)):
        library.configure(seed=seed, late=seed == 1)
        replace(case, seed=seed).run(library)


def test_the_workspace_is_that_of_the_kernel_that_runs(tmp_path: Path) -> None:
    """Python asks for its size before it has addresses. This library has no kernel without such scales."""
    library = load(tmp_path, "d64")
    arguments = TOKENS.start(library, pages=0)
    arguments.k_scale_per_key = 1
    add_workspace(library, "flashcore_decode_workspace_bytes", arguments)
    assert arguments.workspace_bytes > 0
    arguments.k_scale_per_key = 0
    with pytest.raises(ViolationError, match="no kernel of this build"):
        add_workspace(library, "flashcore_decode_workspace_bytes", arguments)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_hard_scales_follow_the_formula(tmp_path: Path, dtype: str) -> None:
    library = load(tmp_path, "d64")
    library.configure(seed=3)
    for case in (
        TOKENS,
        replace(PAGES, sq=2),
        replace(TOKENS, scaled="k"),
        replace(TOKENS, scaled="v"),
        replace(TOKENS, growth=-0.1),
    ):
        replace(case, dtype=dtype, hard=True).run(library)
    for name in "kv":
        replace(TOKENS, dtype=dtype, infinite=name).run(library)


DEFECTS = [
    ("the scale of another head", TOKENS, COPIES, "split.work_tile) + head_;", "split.work_tile);", "wrong values"),
    ("the scale of another page", replace(PAGES, per_page=False), COPIES, "page = pages_.page(key),", "page = pages_.page(first),", "wrong values"),
    ("entries of the page table that are not read anew", replace(PAGES, lengths=(2000, 70)), PAGE_TABLE, "block == block_) return;", "block_ >= 0) return;", "wrong values"),
    ("the next entries of the page table twice", replace(PAGES, lengths=(2000, 70)), PAGE_TABLE, "next_ = read(block + 1);", "next_ = read(block);", "wrong values"),
    ("sums that keep their old range", replace(TOKENS, growth=0.1), PRODUCTS, "multiply(state, range.widen(column_max(largest)));", "range.widen(column_max(largest));", "wrong values"),
    ("a range that is never widened", replace(TOKENS, growth=0.1), PRODUCTS, "!__all_sync(sm90::kFullWarpMask, range.covers(largest))", "false", "wrong values"),
    ("keys behind the end with a scale", replace(TOKENS, lengths=(300, 70, 6), infinite="v"), COPIES, "key_[i] < keys);", "true);", "wrong values"),
    ("a read of an empty page table", EMPTY, COPIES, "if (keys > 0) pages_.hold(first);", "pages_.hold(first);", "outside of any allocation"),
    ("tiles in the order of the warps", TOKENS, COPIES, "tiles_to_next_ = tile - split.last;", "tiles_to_next_ = 0;", "deadlock|wrong values|race|asynchronous|in flight"),
    ("a slot that is not awaited", LONG, COPIES, "ring_.wait_empty(shared_.ring);", "", "race|wrong values|asynchronous|arrive"),
    ("a tile in the place of the scales", LONG, PRODUCER, "advance<used_stages(kConfig)>(ring_);", "advance<kConfig.stages>(ring_);", "deadlock|wrong values|race|asynchronous"),
    ("scales that are not awaited", LONG, COPIES, "ptx::cp_async_arrive_noinc(&shared_.ring.full[ring_.slot]);", "ptx::mbarrier_arrive(&shared_.ring.full[ring_.slot]);", "asynchronous copy still writes"),
    ("scales that are multiplied without the values", replace(TOKENS, scaled="k"), CONSUMER, "if (params_.v_key_scale.data != nullptr) multiply(state", "multiply(state", "wrong values"),
]  # fmt: skip


def run_in_many_orders(library: Library, case: Scaled) -> None:
    for seed in range(1, 5):
        library.configure(seed=seed, late=seed == 1)
        case.run(library)


@pytest.mark.parametrize(
    ("case", "source", "old", "new", "found"), [defect[1:] for defect in DEFECTS], ids=[defect[0] for defect in DEFECTS]
)
def test_a_planted_defect_is_found(tmp_path: Path, case: Scaled, source: str, old: str, new: str, found: str) -> None:
    library = load(tmp_path, "d64", {source: (old, new)})
    with pytest.raises(ViolationError, match=found):
        run_in_many_orders(library, case)
