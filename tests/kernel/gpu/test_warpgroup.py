"""Packed queries whose rows a warpgroup takes, on a Hopper GPU, compared with the formula in float64. Unused cache rows are NaN."""

from __future__ import annotations

from typing import Any

import gpu_subjects
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

subject = gpu_subjects.load("decode")


def check(entry: str, **params: Any) -> None:
    params = {
        "b": 23,
        "h": 16,
        "hkv": 2,
        "sq": 20,
        "packed": 5,
        "sk": 1500,
        "d": 128,
        "dtype": "bf16",
        "page": 16,
        "lengths": "edges",
        **params,
    }
    assert subject.problem(params)["entries"] == [f"flashcore_decode_{entry}_d{params['d']}_{params['dtype']}"]
    inputs = dict(subject.inputs(params, 5))
    gpu_subjects.assert_correct(subject, inputs, gpu_subjects.launch(subject, inputs))


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("page", [16, 64, 128, 256])
@pytest.mark.parametrize(("max_ctas", "causal"), [(0, True), (1, False), (7, True), (7, False)])
def test_lengths_next_to_page_boundaries(max_ctas: int, causal: bool, page: int, d: int, dtype: str) -> None:
    check("warpgroup", page=page, d=d, dtype=dtype, max_ctas=max_ctas, causal=causal)


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize(
    ("h", "hkv", "packed"), [(17, 1, 1), (64, 1, 1), (8, 4, 15), (9, 3, 6), (21, 3, 9), (32, 2, 4), (10, 2, 12)]
)
def test_numbers_of_rows(h: int, hkv: int, packed: int, d: int) -> None:
    check("warpgroup", h=h, hkv=hkv, packed=packed, d=d)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize(
    "limits", [{"left": 127}, {"left": 300, "sinks": "bf16"}, {"chunk": 200}, {"softcap": 3.0, "sinks": "fp32"}], ids=str
)
def test_windows_caps_and_sinks(limits: dict[str, Any], d: int, dtype: str) -> None:
    check("local_warpgroup", d=d, dtype=dtype, max_ctas=5, **limits)


@pytest.mark.parametrize("name", ["large", "rising", "falling", "constant"])
def test_wide_scores(name: str) -> None:
    for d in (64, 128):
        check("warpgroup", d=d, input=name, sk=5000, lengths="ragged", dtype="fp16")
