"""Decode of head dimensions between those of the kernels, on the emulator: values, and planted defects.

What lies behind a head is another head or nothing, so the emulator sees each access that goes too far.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated import Library, ViolationError
from emulated_cases import Decode, Local
from emulated_gather import Gather
from emulated_packed import Packed
from emulator_build import build

pytestmark = pytest.mark.nightly
Case = Decode | Packed | Gather
PACKED = {"function": "flashcore_decode", "page_size": 16}
FEW, MANY = ((1, 70), (3, 37), (0, 5)), ((5, 140), (3, 37), (5, 5))
WINDOW = Local(left=30, softcap=2.0, sinks=(0.5, -1.0, 2.0, 0.1))
KERNELS: tuple[tuple[str, tuple[Case, ...]], ...] = (
    ("d64_fp16", (Decode(8, (70, 37), heads=4), Decode(40, (70, 37), heads=4, page_size=16, new_keys=3))),
    ("d128_fp16", (Decode(72, (300, 37), heads=4, splits=3), Decode(96, (70, 37), heads=4, page_size=16, new_keys=3, sq=2))),
    ("d256_bf16", (Decode(136, (70, 37), "bf16", heads=4), Decode(192, (70,), "bf16", heads=4, page_size=64, new_keys=2))),
    ("deterministic_d128_fp16", (Decode(120, (600, 70), heads=4, sq=3, deterministic=True, max_ctas=3),)),
    ("local_d128_fp16", (Decode(80, (90, 37), heads=4, page_size=16, local=WINDOW, new_keys=5),)),
    ("ragged_d256_fp16", (Packed(248, FEW, heads=4, kv_heads=2, **PACKED),)),
    ("warpgroup_d128_fp16", (Packed(72, MANY, heads=8, **PACKED), Packed(96, MANY[:2], heads=8, **PACKED))),
    ("gather_d64_fp16", (Gather(24, (70, 37, 5), 1, heads=4, kv_heads=2, counts=(1, 3, 2)),)),
    ("gather_d128_fp16", (Gather(96, (170, 37, 5), 7, heads=8, counts=(5, 3, 5), local=Local(left=20)),)),
    ("gather_d256_fp16", (Gather(136, (70, 37), 3, heads=4, kv_heads=2, counts=(1, 2)),)),
    ("d64_bf16_e4m3", (Decode(48, (70, 37), "bf16", cache="e4m3", heads=4, page_size=16, new_keys=3),)),
    ("d128_e4m3_e4m3", (Decode(96, (70, 37), "e4m3", heads=4, kv_heads=4),)),
    ("d256_fp16_e4m3", (Decode(144, (70, 37), cache="e4m3", heads=4, kv_heads=4, sq=2),)),
)
D96, GATHER = ("d128_fp16", Decode(96, (37, 70), heads=4, splits=3)), ("gather_d128_fp16", KERNELS[8][1][0])
WARPGROUP = ("warpgroup_d128_fp16", KERNELS[6][1][1])
COORDINATE = "const int first = column * kAtomElements;\n"
DEFECTS = (
    (D96, "merge.cuh", "if (2 * pair >= params_.head_dim) return;", "", "race|wrong values|outside of any allocation"),
    (D96, "producer.cuh", f"{COORDINATE}                ptx", "const int first = 0;\n                ptx", "wrong values"),
    (D96, "query_rows.cuh", "const bool inside = kAll ||", "const bool inside = true ||", "outside of any allocation|nobody"),
    (D96, "config.h", "return columns > 1 && head_dim % elements != 0;", "return false;", "outside of any allocation|nobody"),
    (WARPGROUP, "warpgroup_end.cuh", "if (i * sm90::kMmaN < params_.head_dim) pairs", "pairs", "race|wrong values|outside of any allocation"),
    (WARPGROUP, "producer.cuh", f"{COORDINATE}        ptx", "const int first = 0;\n        ptx", "wrong values"),
    (GATHER, "gather.cuh", "if (is_inside()) return;", "return;", "wrong values|nobody has written"),
    (GATHER, "gather.cuh", "is_inside() ? keys : 0", "keys", "wrong values|outside of any allocation"),
)  # fmt: skip


def load(folder: Path, name: str, mutation: tuple[str, str, str] | None = None) -> Library:
    mutations = {f"flashcore/decode/{mutation[0]}": mutation[1:]} if mutation else {}
    return Library(build(folder / "decode.so", [f"flashcore_decode_{name}"], ["decode"], mutations=mutations))


@pytest.mark.parametrize(("name", "cases"), KERNELS, ids=lambda value: value if isinstance(value, str) else "")
def test_values(tmp_path: Path, name: str, cases: tuple[Case, ...]) -> None:
    library = load(tmp_path, name)
    for seed, late in ((5, False), (6, True)):
        library.configure(seed=seed, late=late)
        for case in cases:
            case.run(library)


@pytest.mark.parametrize(
    ("kernel", "header", "old", "new", "message"), DEFECTS, ids=lambda value: "" if isinstance(value, tuple) else value[:30]
)
def test_a_planted_defect_is_found(
    tmp_path: Path, kernel: tuple[str, Case], header: str, old: str, new: str, message: str
) -> None:
    name, case = kernel
    library = load(tmp_path, name, (header, old, new))
    library.configure(seed=5, late=False)
    with pytest.raises(ViolationError, match=message):
        case.run(library)
    library.free()
