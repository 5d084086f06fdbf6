"""What has no gradient: the backward names it, E4M3 too."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB, and both C++ files compile in 10 s

BATCH, ROWS, HEADS, D = 2, 8, 4, 64
DESCALES = ("q_descale", "k_descale", "v_descale")


def make(operators: SimpleNamespace, *shape: int, dtype: str = "float16") -> Any:
    return operators.torch.randn(shape).to(getattr(operators.torch, dtype)).requires_grad_()


@pytest.fixture
def launched(operators: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Count calls of PyTorch's backward, of which none may be reached."""
    calls: list[Any] = []
    monkeypatch.setattr(operators.torch.ops.aten, "_flash_attention_backward", lambda *given, **_: calls.append(given))
    return calls


def refuse(operators: SimpleNamespace, name: str, out: Any) -> None:
    assert out.requires_grad
    with pytest.raises(NotImplementedError, match=rf"^{name}: FlashCore computes no gradient with it\. Use torch\.no_grad\(\)$"):
        out.float().sum().backward()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["sinks", "attention_chunk", "softcap"])
def test_a_changed_softmax_has_no_gradient(operators: SimpleNamespace, launched: list[Any], name: str, packed: bool) -> None:
    value = {"sinks": operators.torch.zeros(HEADS), "attention_chunk": 4, "softcap": 15.0}[name]
    if packed:
        q, starts = make(operators, 2 * ROWS, HEADS, D), operators.torch.tensor([0, 5, 2 * ROWS], dtype=operators.torch.int32)
        out = operators.flashcore.flash_attn_varlen_func(q, q, q, starts, starts, 11, 11, **{name: value})
    else:
        q = make(operators, BATCH, ROWS, HEADS, D)
        out = operators.flashcore.flash_attn_func(q, q, q, **{name: value})
    refuse(operators, name, out)
    assert (q.grad, launched) == (None, [])


@pytest.mark.parametrize("name", ["seqused_q", "seqused_k"])
def test_used_lengths_have_no_gradient(operators: SimpleNamespace, launched: list[Any], name: str) -> None:
    torch = operators.torch
    q, starts = make(operators, 2 * ROWS, HEADS, D), torch.tensor([0, ROWS, 2 * ROWS], dtype=torch.int32)
    used = torch.tensor([3, 5], dtype=torch.int32)
    refuse(operators, name, operators.flashcore.flash_attn_varlen_func(q, q, q, starts, starts, ROWS, ROWS, **{name: used}))
    assert (q.grad, launched) == (None, [])


@pytest.mark.parametrize("name", DESCALES)
def test_descales_have_no_gradient(operators: SimpleNamespace, launched: list[Any], name: str) -> None:
    torch = operators.torch
    q, starts = make(operators, 2 * ROWS, HEADS, D, dtype="float8_e4m3fn"), torch.tensor([0, ROWS, 2 * ROWS], dtype=torch.int32)
    factors = {name: torch.ones(BATCH, HEADS)}
    refuse(operators, name, operators.flashcore.flash_attn_varlen_func(q, q, q, starts, starts, ROWS, ROWS, **factors))
    q = make(operators, BATCH, ROWS, HEADS, D)
    with pytest.raises(NotImplementedError, match=f"^{name}: "):
        operators.flashcore.flash_attn_func(q, q, q, **factors)
    assert (q.grad, launched) == (None, [])


@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("packed", [False, True])
def test_e4m3_has_no_gradient(operators: SimpleNamespace, launched: list[Any], name: str, packed: bool) -> None:
    """FlashAttention-3's own tests pass E4M3 tensors that require a gradient, so only the backward refuses."""
    torch, flashcore = operators.torch, operators.flashcore
    tensors = [make(operators, BATCH, ROWS, HEADS, D, dtype="float8_e4m3fn").requires_grad_(key == name) for key in "qkv"]
    if packed:
        starts = torch.tensor([0, ROWS, 2 * ROWS], dtype=torch.int32)
        tensors = [tensor.detach().flatten(0, 1).requires_grad_(tensor.requires_grad) for tensor in tensors]
        function, rest = flashcore.flash_attn_varlen_func, (starts, starts, ROWS, ROWS)
    else:
        function, rest = flashcore.flash_attn_func, ()
    out, lse = function(*tensors, *rest, return_attn_probs=True)
    assert (out.dtype, lse.requires_grad) == (torch.bfloat16, False)
    refuse(operators, "E4M3", out)
    refuse(operators, "E4M3", function(*tensors, *rest))
    assert ([tensor.grad for tensor in tensors], launched) == ([None] * 3, [])
    with torch.no_grad():
        assert not function(*tensors, *rest).requires_grad


def test_a_cache_of_e4m3_refuses_queries_that_need_a_gradient(operators: SimpleNamespace) -> None:
    q, cache = make(operators, BATCH, 1, HEADS, D, dtype="bfloat16"), operators.torch.zeros(BATCH, ROWS, HEADS, D)
    cache = cache.to(operators.torch.float8_e4m3fn)
    with pytest.raises(ValueError, match=re.escape("one of them requires a gradient, and this kernel is forward only")):
        operators.flashcore.flash_attn_with_kvcache(q, cache, cache)
