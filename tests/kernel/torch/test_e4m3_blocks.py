"""The subjects of scales of blocks on the CPU: exact stand-ins for the kernels pass, wrong ones do not."""

from __future__ import annotations

import math
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from flashcore_ci.worker import correctness, tensors  # noqa: E402 - torch may be absent

pytestmark = pytest.mark.nightly  # torch is 200 MB
ROOT = Path(__file__).parents[3]
ORIGINAL = {"b": 1, "h": 16, "sq": 32, "sk": 1024}
DEFECTS = ("neighbour", "twice", "last")


def attend(blocks: Any, given: dict[str, Any], out: Any, lse: Any, defect: str) -> None:
    """Compute attention of E4M3 bytes exactly, with a factor for each block. Values may be transposed."""
    q, k, v = (given[name] for name in "qkv")
    spread, rows = blocks.accuracy.e4m3.spread, blocks.accuracy.e4m3.ROWS
    if given.get("transposed"):
        place, row = torch.arange(v.shape[-1]), torch.arange(v.shape[-2])
        ordered = torch.empty_like(v)
        ordered[
            :,
            :,
            (row // 32 * 32 + row // 2 % 4 * 8 + row // 8 % 4 * 2 + row % 2)[:, None],
            place // 16 * 16 + place // 2 % 2 * 8 + place // 4 % 4 * 2 + place % 2,
        ] = v
        v = ordered[..., : k.shape[1]].permute(0, 3, 1, 2)
    scales = {name: given[f"{name}_scale"].clone() for name in "qkv"}
    if defect == "neighbour":
        scales["k"] = scales["k"].roll(1, dims=-1)
    elif defect == "twice":
        scales["v"] = scales["v"].square()
    elif defect == "last":
        scales["v"][..., -1] = 1.0
    q, k, v = (
        x.view(torch.float8_e4m3fn).float() * spread(scales[n], x, rows[n])[..., None]
        for n, x in zip("qkv", (q, k, v), strict=True)
    )
    k, v = (x.repeat_interleave(q.shape[2] // k.shape[2], dim=2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    result = torch.einsum("bhqk,bkhd->bqhd", torch.softmax(scores, dim=-1), v)
    if out is not None:
        out.copy_(result)
    if lse is not None:
        lse.copy_(torch.logsumexp(scores, dim=-1))


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Any:
    blocks = ModuleType("blocks")
    vars(blocks)["__file__"] = str(ROOT / "kernel/subjects/e4m3_blocks.py")
    SourceFileLoader("blocks", str(ROOT / "kernel/subjects/e4m3_blocks.py")).exec_module(blocks)
    e4m3 = blocks.accuracy.e4m3
    for module in (blocks, blocks.quantised, blocks.accuracy, e4m3, e4m3.fp8):
        monkeypatch.setattr(module, "DEVICE", "cpu")
    flashcore, rounding = ModuleType("flashcore"), ModuleType("flashcore._blocks")
    monkeypatch.setitem(sys.modules, "flashcore", flashcore)
    monkeypatch.setitem(sys.modules, "flashcore._blocks", rounding)
    vars(flashcore)["_blocks"], vars(rounding)["SIGNS"] = rounding, blocks.SIGNS

    def quantise_blocks(x: Any, kind: str, *, signs: Any, out: Any) -> Any:
        x = blocks.quantised.transform(x.float(), blocks.SIGNS) if signs else x.float()
        rounded = blocks.quantise_exactly(x, x, x, keeps_length=signs is not None)
        values = blocks.order(rounded["v"]) if kind == "v" else rounded[kind]
        if out:
            out[0].copy_(values), out[1].copy_(rounded[f"{kind}_scale"])
        return values, rounded[f"{kind}_scale"]

    vars(rounding)["quantise_blocks"] = quantise_blocks

    def readings(subject: Any = blocks, defect: str = "", **params: Any) -> dict[str, Any]:
        def run(q: Any, k: Any, v: Any, *, out: Any = None, lse: Any = None, **rest: Any) -> None:
            attend(blocks, {"q": q, "k": k, "v": v, **rest}, out, lse, defect)

        vars(flashcore)["attention_e4m3"] = run
        vars(flashcore)["transpose_values"] = blocks.order
        inputs = subject.inputs(params, 0)
        outputs = subject.outputs(inputs)
        subject.run(inputs, outputs)
        tensors.refuse_changed(inputs, subject.inputs(params, 0))
        low, exact = subject.reference(inputs), subject.reference(tensors.upcast(inputs))
        correctness._require_same_outputs(outputs, low, "reference")
        return correctness._compare(outputs, low, exact, {})["readings"]

    vars(readings).update(e4m3=e4m3, blocks=blocks)
    return readings


def test_scales_of_blocks_and_a_transform_make_an_outlier_harmless(measure: Any) -> None:
    assert measure(input="normal", **ORIGINAL)["error/rms-ratio"] <= 1.05
    assert measure(input="normal", transform=True, **ORIGINAL)["error/rms-ratio"] <= 1.05
    assert measure(input="outlier", size=16, transform=True, **ORIGINAL)["error/rms-ratio"] <= 0.3


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_wrong_scale_of_a_block_shows(measure: Any, defect: str) -> None:
    """With scales as the subject e4m3 makes them: neighbours differ by a factor of 2 or 4."""
    params = {"b": 2, "h": 4, "hkv": 2, "sq": 200, "sk": 700, "input": "normal", "blocks": True}
    assert measure(measure.e4m3, **params)["error/ratio"] <= 1
    assert measure(measure.e4m3, defect, **params)["error/ratio"] > 1


@pytest.mark.parametrize("part", ["quantise", "columns"])
def test_bytes_match_the_formula(measure: Any, part: str) -> None:
    assert measure(part=part, b=2, h=6, hkv=2, sq=333, sk=1217, input="outlier", size=16)["diff/max"] == 0


@pytest.mark.parametrize("columns", [False, True])
def test_other_head_dimensions_are_filled_with_zeros(monkeypatch: pytest.MonkeyPatch, *, columns: bool) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "kernel"))
    from flashcore import _e4m3

    given: list[Any] = []

    def entry(tensors_: Any, options: Any, *, return_lse: bool) -> Any:
        given.append((tensors_, options))
        return (tensors_[3].fill_(1.0), torch.zeros(1)) if return_lse else tensors_[3].fill_(1.0)

    monkeypatch.setattr(_e4m3, "_ENTRY", entry)
    q, k, v = (torch.randint(0, 100, (2, n, 3, 96), dtype=torch.uint8) for n in (5, 7, 7))
    if columns:
        v = v.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    target = torch.empty(2, 5, 3, 96, dtype=torch.bfloat16)
    out, lse = _e4m3.attention_e4m3(q, k, v.view(torch.float8_e4m3fn), causal=True, return_lse=True, out=target)
    ((tensors_, options),) = given
    assert [tuple(x.shape) for x in tensors_[:4]] == [(2, 5, 3, 128), (2, 7, 3, 128), (2, 7, 3, 128), (2, 5, 3, 128)]
    assert all(
        torch.equal(filled[..., :96], x) and not filled[..., 96:].any() for filled, x in zip(tensors_[:3], (q, k, v), strict=True)
    )
    assert options == (True, 1 / math.sqrt(96), False, 0)
    assert out is target
    assert (out == 1.0).all()
    assert lse.shape == (1,)


def test_other_head_dimensions_of_packed_rows_are_filled_with_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "kernel"))
    from flashcore import _e4m3_varlen

    given: list[Any] = []

    def entry(tensors_: Any, options: Any, *, return_lse: bool) -> Any:
        given.append((tensors_, options, return_lse))
        return tensors_[3].fill_(1.0)

    monkeypatch.setattr(_e4m3_varlen, "_ENTRY", entry)
    q, k, v = (torch.randint(0, 100, (n, 3, 192), dtype=torch.uint8) for n in (5, 7, 7))
    starts, used = (torch.tensor(x, dtype=torch.int32) for x in ([0, 5], [4]))
    out = _e4m3_varlen.attention_e4m3_varlen(q, k, v, starts, starts, causal=True, seqused_k=used, max_ctas=7)
    ((tensors_, options, asks_sums),) = given
    filled, result, lengths = tensors_[:3], tensors_[3], tensors_[7]
    assert [tuple(x.shape) for x in (*filled, result, out)] == [(5, 3, 256), (7, 3, 256), (7, 3, 256), (5, 3, 256), (5, 3, 192)]
    assert all(torch.equal(x[..., :192], y) and not x[..., 192:].any() for x, y in zip(filled, (q, k, v), strict=True))
    assert lengths is used
    assert (options, asks_sums) == ((True, 1 / math.sqrt(192), 7), False)


def load(name: str) -> ModuleType:
    module = ModuleType(name)
    vars(module)["__file__"] = str(ROOT / f"kernel/subjects/{name}.py")
    SourceFileLoader(name, vars(module)["__file__"]).exec_module(module)
    return module


def add_products(x: Any, y: Any) -> Any:
    """Walk through quantise/row_length.cuh lane by lane: neighbouring columns of a lane, then 5 exchanges of lanes."""
    lanes = (x * y).view(32, -1)
    total = lanes[:, 0]
    for column in range(1, lanes.shape[1]):
        total = total + lanes[:, column]
    for step in (1, 2, 4, 8, 16):
        total = total + total[torch.arange(32) ^ step]
    assert (total == total[0]).all()
    return total[0]


@pytest.mark.parametrize("d", [64, 128, 256])
def test_keys_keep_their_length_in_the_order_of_the_kernel(d: int) -> None:
    blocks = load("e4m3_blocks")
    y = torch.randn(100, d, generator=torch.Generator().manual_seed(d)) * 100
    rounded = y.to(torch.float8_e4m3fn)
    kept = blocks.accuracy.e4m3.fp8.to_float(blocks.keep_length(y, rounded.view(torch.uint8)))
    longer_rows = 0
    for row, near, found in zip(y, rounded.float(), kept, strict=True):
        lost = add_products(row, row - near)
        longer = (row * (1.0 + lost / add_products(row, row))).clamp(-448, 448).to(torch.float8_e4m3fn).float()
        takes_longer = bool(add_products(row, row - longer).abs() < lost.abs())
        assert torch.equal(found, longer if takes_longer else near)
        longer_rows += takes_longer
    assert 30 < longer_rows < 100


def test_no_row_loses_more_length_and_rows_without_one_stay() -> None:
    blocks = load("e4m3_blocks")
    y = torch.randn(400, 64, generator=torch.Generator().manual_seed(1)) * 100
    y[0], y[1] = 0.0, math.nan
    rounded = y.to(torch.float8_e4m3fn).view(torch.uint8)
    kept = blocks.keep_length(y, rounded)
    assert torch.equal(kept[:2], rounded[:2])
    before, after = (((y - x.view(torch.float8_e4m3fn).float()) * y)[2:].sum(dim=-1).abs() for x in (rounded, kept))
    assert (after <= before * 1.001 + 1e-3).all()
    assert after.mean() < 0.7 * before.mean()


def test_keys_that_keep_their_length_have_a_smaller_error(measure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the heads are narrow and the keys are many, the error along the keys was the largest."""
    params = {"b": 1, "h": 8, "sq": 32, "sk": 8192, "d": 64, "input": "outlier", "size": 16, "transform": True}
    kept = measure(**params)["error/rms-ratio"]
    monkeypatch.setattr(measure.blocks, "keep_length", lambda _, rounded: rounded)
    assert kept < 0.85 * measure(**params)["error/rms-ratio"]
    assert kept <= 0.3
