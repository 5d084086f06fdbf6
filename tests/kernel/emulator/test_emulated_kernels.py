"""Every kind of kernel on the CPU: values against float64, no deadlock, no race, no stray access."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated import Library
from emulated_cases import Attention, Decode, Local
from emulated_packed import E4m3, Packed
from emulator_build import build

WINDOW = Local(left=40, sinks=(0.5, -1.0))
CAP = Local(left=100, softcap=5.0)
SOME = (0, 1, 63, 64, 127, 128, 199)
SEQUENCES = ((70, 70), (1, 200), (130, 0), (200, 300))
FEW = ((3, 300), (1, 70), (0, 10), (7, 64))
ONE_KEY = Packed(64, ((1, 1),), heads=1, page_size=16)  # a CTA has one tile, so one slot never holds a tile
PREPARE = "flashcore_attention_prepare"


def dense(head_dim: int, dtype: str, mask: str) -> tuple[str, str, list[Attention]]:
    name = f"flashcore_attention_fwd_d{head_dim}_{dtype}_{mask}"
    causal = mask == "causal"
    shapes = [Attention(head_dim, 200, 300, dtype, causal, heads=2, rows=SOME)]
    shapes += [Attention(head_dim, 300, 130, dtype, causal, rows=SOME, max_ctas=1, has_counter=False)]
    return name, "attention", [*shapes, Attention(head_dim, 1, 0, dtype, causal)]


def local(kind: str, head_dim: int, local_part: Local) -> tuple[str, str, list[Attention]]:
    name = f"flashcore_attention_{kind}_d{head_dim}_fp16"
    return name, "attention", [Attention(head_dim, 200, 300, causal=True, heads=2, rows=SOME, local=local_part)]


def decode(name: str, *cases: Decode | Packed) -> tuple[str, str, list[Decode | Packed]]:
    return f"flashcore_decode_{name}", "decode", list(cases)


KERNELS = [
    *(dense(head_dim, "fp16", mask) for head_dim in (64, 128, 256) for mask in ("full", "causal")),
    dense(128, "bf16", "causal"),
    local("local", 64, WINDOW),
    local("local", 128, Local(left=20, right=30)),
    local("local", 256, Local(chunk=64)),
    local("cap", 64, CAP),
    decode("d64_fp16", Decode(64, (300, 0, 1), heads=4), Decode(64, (300, 70), page_size=64, splits=4, max_ctas=3)),
    decode("d128_fp16 flashcore_decode_deterministic_d128_fp16", Decode(128, (300, 70), heads=8, sq=3, deterministic=True), Decode(128, (200,), new_keys=3, sq=3, page_size=16)),
    decode("d256_bf16", Decode(256, (300, 70), "bf16", sq=2, page_size=128, splits=2)),
    decode("d64_fp16_e4m3", Decode(64, (300, 70), cache="e4m3", heads=4), Decode(64, (200,), cache="e4m3", new_keys=2, page_size=16)),
    decode("d128_e4m3_e4m3", Decode(128, (300, 70), "e4m3", page_size=16)),
    decode("d256_bf16_e4m3", Decode(256, (300, 70), "bf16", cache="e4m3")),
    decode("local_d64_fp16", Decode(64, (300, 70), local=WINDOW), Decode(64, (300, 70), local=CAP, page_size=16)),
    decode("local_d256_fp16", Decode(256, (300, 70), local=WINDOW)),
    decode("ragged_d64_fp16", Packed(64, FEW, "flashcore_decode", heads=4, kv_heads=2, page_size=16)),
    decode("local_ragged_d128_fp16", Packed(128, FEW[:3], "flashcore_decode", page_size=16, local=WINDOW)),
    (f"flashcore_attention_fwd_d64_fp16_causal {PREPARE}", "varlen", [Packed(64, SEQUENCES)]),
    (f"flashcore_attention_fwd_d128_fp16_full {PREPARE}", "varlen", [Packed(128, SEQUENCES, causal=False)]),
    (f"flashcore_attention_fwd_paged_d64_fp16_causal {PREPARE}", "varlen", [ONE_KEY, Packed(64, SEQUENCES, page_size=16)]),
    (f"flashcore_attention_fwd_paged_d128_fp16_causal {PREPARE}", "varlen", [Packed(128, SEQUENCES[:2], page_size=100)]),
    (f"flashcore_attention_fwd_paged_d256_fp16_full {PREPARE}", "varlen", [Packed(256, SEQUENCES[:2], causal=False, page_size=64)]),
    (f"flashcore_attention_local_paged_d64_fp16 {PREPARE}", "varlen", [Packed(64, SEQUENCES[:2], page_size=16, local=WINDOW)]),
    ("flashcore_e4m3_fwd_d128_full flashcore_e4m3_transpose_values", "e4m3", [E4m3(200, 700, rows=SOME, scales=(0.5, 2.0, 3.0))]),
    ("flashcore_e4m3_fwd_d128_causal flashcore_e4m3_transpose_values", "e4m3", [E4m3(300, 300, causal=True, heads=2, rows=SOME)]),
]  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("names", "source", "cases"), KERNELS, ids=lambda value: value.split()[0] if isinstance(value, str) else ""
)
def test_kernel(tmp_path: Path, names: str, source: str, cases: list[Attention | Decode | Packed | E4m3]) -> None:
    library = Library(build(tmp_path / "kernel.so", names.split(), [source]))
    for case in cases:
        for seed in (1, 2):
            library.configure(seed=seed, late=seed == 1)
            case.run(library)
