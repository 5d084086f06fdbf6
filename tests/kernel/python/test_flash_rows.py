"""The gate's workloads of FlashAttention-3's functions fail if one of these passes a wrong argument.

The subject's formula, in float64 on the CPU, replaces the kernels. It gets the same arguments as the binding.
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
LIMIT = 2e-3  # the smallest limit of the gate max-diff
ROWS = {row.id: row for row in load(ROOT / "gates/hopper.toml", root=ROOT).workloads if row.id.startswith("flash-")}
DENSE, RAGGED, CACHE, PAGED = "flash-fp16", "flash-varlen", "flash-kvcache-append5", "flash-paged16"
BUGS = [  # module, text, wrong text, and the workload that must fail
    ("_flash", "q, k, v, causal=causal,", "q, k, v, causal=not causal,", DENSE),
    ("_flash", "q, k, v, causal=causal,", "q, v, k, causal=causal,", DENSE),
    ("_flash", "cu_seqlens_q, cu_seqlens_k, causal=causal,", "cu_seqlens_q, cu_seqlens_k, causal=not causal,", RAGGED),
    ("_flash", "q, k, v, cu_seqlens_q, cu_seqlens_k, causal", "q, v, k, cu_seqlens_q, cu_seqlens_k, causal", RAGGED),
    ("_kvcache", "causal=causal, scale", "causal=not causal, scale", CACHE),
    ("_kvcache", "(q, k_cache, v_cache, k, v), l", "(q, v_cache, k_cache, k, v), l", CACHE),
    ("_kvcache", "(q, k_cache, v_cache, k, v), l", "(q, k_cache, v_cache, v, k), l", CACHE),
    ("_kvcache", "lengths=cache_seqlens, page", "lengths=cache_seqlens + 1, page", CACHE),
    ("_cache", "q, k_cache, v_cache, starts, seqused_k", "q, v_cache, k_cache, starts, seqused_k", PAGED),
    ("_cache", "v_cache, starts, seqused_k=lengths,", "v_cache, starts, seqused_k=lengths // 2,", PAGED),
]


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """Import FlashAttention-3's functions over PyTorch on the CPU. Afterwards restore the modules."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("PyTorch 2.11 or newer is needed")
    monkeypatch.syspath_prepend(str(ROOT / "kernel"))
    kept = {"flashcore.ops", "flashcore._replay"}  # PyTorch defines a namespace once
    before = {
        name: sys.modules.pop(name) for name in tuple(sys.modules) if name.split(".")[0] == "flashcore" and name not in kept
    }
    yield {name: importlib.import_module(f"flashcore.{name}") for name in ("_flash", "_kvcache", "_cache")}
    for name in [name for name in sys.modules if name.split(".")[0] == "flashcore" and name not in kept]:
        del sys.modules[name]
    sys.modules.update(before)


def replace_kernels(subject: ModuleType, modules: dict[str, ModuleType]) -> None:
    """Put the subject's formula in place of the kernels."""

    def get_results(reference: dict[str, Any]) -> tuple[Any, Any]:
        return reference["out"], reference["lse"]

    def attention(q: Any, k: Any, v: Any, *, causal: bool, **_: Any) -> tuple[Any, Any]:
        return get_results(subject.reference({"q": q, "k": k, "v": v, "causal": causal, "layout": "bshd"}))

    def attention_varlen(
        q: Any,
        k: Any,
        v: Any,
        starts_q: Any,
        starts_k: Any = None,
        *,
        causal: bool,
        page_table: Any = None,
        seqused_k: Any = None,
        out: Any = None,
        lse: Any = None,
        **_: Any,
    ) -> tuple[Any, Any]:
        pages = {} if page_table is None else {"page_table": page_table, "seqused_k": seqused_k}
        starts = {subject.varlen.CUMULATIVE: starts_q, "cu_seqlens_k": starts_k, **pages}
        results = get_results(subject.reference({"q": q, "k": k, "v": v, "causal": causal, "layout": "bshd", **starts}))
        for given, computed in zip((out, lse), results, strict=True):
            if given is not None:
                given.copy_(computed)
        return results

    def decode_varlen(q: Any, *_: Any, **__: Any) -> Any:
        """Leave the short sequences to the stand-in for the prefill, which computes all."""
        return q.new_zeros(q.shape)

    def launch_decode(tensors: tuple[Any, ...], options: tuple[Any, ...], **_: Any) -> tuple[Any, Any]:
        names = (
            "q",
            "k",
            "v",
            "k_new",
            "v_new",
            "out",
            "lengths",
            "page_table",
            "q_scale",
            "k_scale",
            "v_scale",
            "sinks",
            "loaded_tiles",
            "lse",
        )
        arguments = {
            name: tensor for name, tensor in zip(names, tensors, strict=True) if tensor is not None or name == "page_table"
        }
        reference = subject.reference({**arguments, "causal": options[0]})
        for name in reference.keys() & {"k", "v"}:
            arguments[name].copy_(reference[name].masked_fill(reference[name] == subject.MARK, math.nan))
        return get_results(reference)

    vars(modules["_flash"]).update(attention=attention, attention_varlen=attention_varlen)
    vars(modules["_cache"]).update(launch_decode=launch_decode, attention_varlen=attention_varlen, decode_varlen=decode_varlen)


def find_largest_difference(row: str, modules: dict[str, ModuleType]) -> float:
    """Compare the workload's outputs with the reference."""
    import flashcore
    import torch

    workload = ROWS[next(name for name in ROWS if name.startswith(row))]
    subject = gpu_subjects.load(workload.subject)
    subject.DEVICE = "cpu"
    replace_kernels(subject, modules)
    for module in modules.values():
        vars(flashcore).update({name: function for name, function in vars(module).items() if name.startswith("flash_attn_")})
    inputs = upcast(subject.inputs(dict(workload.params), 3))
    outputs, expected = subject.outputs(inputs), subject.reference(inputs)
    subject.run(inputs, outputs)
    differences = [largest_difference(outputs[name].to(torch.float64), expected[name]).result().value for name in expected]
    return max(math.inf if math.isnan(difference) else difference for difference in differences)


def test_every_function_has_a_workload() -> None:
    for row in (DENSE, RAGGED, CACHE, PAGED):
        assert any(name.startswith(row) for name in ROWS)
    assert all(dict(row.params)["flash"] is True for row in ROWS.values())


@pytest.mark.parametrize("row", ROWS)
def test_workloads_pass(modules: dict[str, ModuleType], row: str) -> None:
    assert find_largest_difference(row, modules) < 1e-6


@pytest.mark.parametrize(("module", "old", "new", "row"), BUGS)
def test_a_wrong_argument_fails(modules: dict[str, ModuleType], module: str, old: str, new: str, row: str) -> None:
    text = (ROOT / f"kernel/flashcore/{module}.py").read_text(encoding="utf-8")
    assert text.count(old) == 1
    exec(compile(text.replace(old, new), module, "exec"), vars(modules[module]))
    assert find_largest_difference(row, modules) > LIMIT
