"""Run decode's copies of single keys on the emulator: every layout of pages, and planted defects. The index math has host tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated import Library, ViolationError
from emulated_cases import Local
from emulated_gather import Gather
from emulator_build import build

pytestmark = pytest.mark.nightly
CASES = (
    Gather(64, (150, 3, 0, 1), 1, counts=(1, 1, 1, 1), kv_heads=2, heads=4),  # two heads share a tile
    Gather(64, (70, 129, 40), 7, layout="hnd", counts=(3, 17, 2), max_ctas=1),
    Gather(64, (40, 90), 4, layout="interleaved", counts=(1, 1), kv_heads=2, shared=True),
    Gather(64, (33, 100), 8, layout="padded", counts=(1, 1), wild=True),
    Gather(64, (60,), 100, counts=(1,), far=2**33),
)
WIDE = (
    Gather(128, (70, 5, 30, 90, 0), 1, counts=(1, 5, 0, 17, 1), heads=3),
    Gather(128, (200, 66), 8, layout="hnd", counts=(2, 1), local=Local(left=50, sinks=(0.5, -1.0))),
)
DEFECTS = (
    ("copy_map.h", "tile_row % kSwizzleRows / (kAtomColumnBytes / kAtomRowBytes)", "tile_row % kSwizzleRows / 2", "wrong values"),
    ("gather.cuh", "__ldg(pages_.entry(slot))", "__ldg(pages_.entry(max_int(slot - 1, 0)))", "wrong values"),
    ("gather.cuh", "page_[i] = key < keys ?", "page_[i] = true ?", "nobody has written"),
    ("gather.cuh", "(page * cache.batch_stride", "(static_cast<int>(page * cache.batch_stride)", "outside of any allocation"),
    ("gather_producer.cuh", "ptx::cp_async_arrive_noinc(", "ptx::mbarrier_arrive(", "asynchronous copy still writes"),
    ("gather_producer.cuh", "ring.wait_empty(this->shared_.ring);", "", "asynchronous copy still writes|race"),
    (
        "shared_storage.cuh",
        "producer_warps * kWarpThreads : k",
        "producer_warps * kWarpThreads - 1 : k",
        "race|asynchronous|no more arrivals",
    ),
)


def make_library(path: Path, name: str, mutation: tuple[str, str, str] | None = None) -> Library:
    mutations = {f"flashcore/decode/{mutation[0]}": mutation[1:]} if mutation else {}
    return Library(build(path / "decode.so", [f"flashcore_decode_gather_{name}"], ["decode"], mutations=mutations))


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("d64_fp16", CASES),
        ("d128_fp16", WIDE),
        ("d256_bf16", (Gather(256, (70, 5), 3, dtype="bf16", layout="hnd", counts=(1, 2)),)),
    ],
    ids=lambda value: value if isinstance(value, str) else len(value),
)
def test_keys_of_any_pages(tmp_path: Path, name: str, cases: tuple[Gather, ...]) -> None:
    library = make_library(tmp_path, name)
    for late in (False, True):
        library.configure(seed=5, late=late)
        for case in cases:
            case.run(library)


def run_all(library: Library) -> None:
    for case in (Gather(64, (1000,), 1, counts=(1,), max_ctas=1), *CASES):  # more tiles than the ring holds
        case.run(library)


@pytest.mark.parametrize(("header", "old", "new", "message"), DEFECTS, ids=lambda value: value[:40])
def test_a_planted_defect_is_found(tmp_path: Path, header: str, old: str, new: str, message: str) -> None:
    library = make_library(tmp_path, "d64_fp16", (header, old, new))
    library.configure(seed=5, late=False)
    with pytest.raises(ViolationError, match=message):
        run_all(library)
    library.free()
