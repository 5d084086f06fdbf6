"""The gate's workloads that call FlashAttention-3's functions turn red when these hand an argument on wrongly.

The subject's own formula, in float64 on the CPU, stands in for the kernels: it is told what the binding is told.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gpu_subjects
import pytest

from flashcore_ci.suite.loader import load
from flashcore_ci.worker.tensors import largest_difference, upcast

ROOT = Path(__file__).resolve().parents[3]
LIMIT = 2e-3  # the smallest of the gate max-diff
ROWS = {row.id: row for row in load(ROOT / "gates/hopper.toml", root=ROOT).workloads if row.id.startswith("flash-")}
DENSE, RAGGED, CACHE = "flash-fp16", "flash-varlen", "flash-kvcache-append5"
WRONG = [  # module, text, other text, and which workload sees it
    ("_flash", "q, k, v, causal=causal,", "q, k, v, causal=not causal,", DENSE),
    ("_flash", "q, k, v, causal=causal,", "q, v, k, causal=causal,", DENSE),
    ("_flash", "cu_seqlens_q, cu_seqlens_k, causal=causal,", "cu_seqlens_q, cu_seqlens_k, causal=not causal,", RAGGED),
    ("_flash", "q, k, v, cu_seqlens_q, cu_seqlens_k, causal", "q, v, k, cu_seqlens_q, cu_seqlens_k, causal", RAGGED),
    ("_kvcache", "(causal, softmax_scale,", "(not causal, softmax_scale,", CACHE),
    ("_kvcache", "(q, k_cache, v_cache, k, v,", "(q, v_cache, k_cache, k, v,", CACHE),
    ("_kvcache", "(q, k_cache, v_cache, k, v,", "(q, k_cache, v_cache, v, k,", CACHE),
    ("_kvcache", "k, v, None, cache_seqlens,", "k, v, None, cache_seqlens + 1,", CACHE),
]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of FlashAttention-3's functions, over PyTorch on the CPU; nothing of them stays behind."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("PyTorch 2.11 or newer is needed")
    monkeypatch.syspath_prepend(str(ROOT / "kernel"))
    before = {name: sys.modules.pop(name) for name in tuple(sys.modules) if name.split(".")[0] == "flashcore"}
    yield {name: importlib.import_module(f"flashcore.{name}") for name in ("_flash", "_kvcache")}
    for name in [name for name in sys.modules if name.split(".")[0] == "flashcore"]:
        del sys.modules[name]
    sys.modules.update(before)


def stand_in(subject: ModuleType, modules: dict[str, ModuleType]) -> None:
    """The subject's formula in the kernels' place."""

    def results(found: dict[str, Any]) -> tuple[Any, Any]:
        return found["out"], found["lse"]

    def attention(q: Any, k: Any, v: Any, *, causal: bool, **_: Any) -> tuple[Any, Any]:
        return results(subject.reference({"q": q, "k": k, "v": v, "causal": causal, "layout": "bshd"}))

    def attention_varlen(q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any, *, causal: bool, **_: Any) -> tuple[Any, Any]:
        starts = {subject.varlen.CU_SEQLENS_Q: starts_q, "cu_seqlens_k": starts_k}
        return results(subject.reference({"q": q, "k": k, "v": v, "causal": causal, "layout": "bshd", **starts}))

    def launch_decode(tensors: tuple[Any, ...], options: tuple[Any, ...], **_: Any) -> tuple[Any, Any]:
        names = ("q", "k", "v", "k_new", "v_new", "out", "lengths", "page_table", "lse")
        given = {name: tensor for name, tensor in zip(names, tensors, strict=True) if tensor is not None or name == "page_table"}
        found = subject.reference({**given, "causal": options[0]})
        for name in found.keys() & {"k", "v"}:
            given[name].copy_(found[name].masked_fill(found[name] == subject.MARK, math.nan))
        return results(found)

    vars(modules["_flash"]).update(attention=attention, attention_varlen=attention_varlen)
    vars(modules["_kvcache"])["launch_decode"] = launch_decode


def worst(row: str, modules: dict[str, ModuleType]) -> float:
    """The largest difference of the workload's outputs from what they should be."""
    import flashcore
    import torch

    workload = ROWS[next(name for name in ROWS if name.startswith(row))]
    subject = gpu_subjects.load(workload.subject)
    subject.DEVICE = "cpu"
    stand_in(subject, modules)
    for module in modules.values():
        vars(flashcore).update({name: function for name, function in vars(module).items() if name.startswith("flash_attn_")})
    inputs = upcast(subject.inputs(dict(workload.params), 3))
    outputs, expected = subject.outputs(inputs), subject.reference(inputs)
    subject.run(inputs, outputs)
    differences = [largest_difference(outputs[name].to(torch.float64), expected[name]).value for name in expected]
    return max(math.inf if math.isnan(difference) else difference for difference in differences)


def test_every_function_has_its_workloads() -> None:
    for row in (DENSE, RAGGED, CACHE):
        assert any(name.startswith(row) for name in ROWS)
    assert all(dict(row.params)["flash"] is True for row in ROWS.values())


@pytest.mark.parametrize("row", ROWS)
def test_they_are_right(modules: dict[str, ModuleType], row: str) -> None:
    assert worst(row, modules) < 1e-6


@pytest.mark.parametrize(("module", "old", "new", "row"), WRONG)
def test_what_is_handed_on_wrongly_is_red(modules: dict[str, ModuleType], module: str, old: str, new: str, row: str) -> None:
    text = (ROOT / f"kernel/flashcore/{module}.py").read_text(encoding="utf-8")
    assert text.count(old) == 1
    exec(compile(text.replace(old, new), module, "exec"), vars(modules[module]))
    assert worst(row, modules) > LIMIT
