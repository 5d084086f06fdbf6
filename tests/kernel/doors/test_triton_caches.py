"""Chunks, caches and E4M3 on the Triton kernel, by Triton's interpreter, next to float64."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from cache_cases import FEATURES, HEADS, KV_HEADS, Case, compute

pytestmark = [
    pytest.mark.nightly,  # torch and Triton are 400 MB
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Triton's interpreter needs NumPy before 2.4
]

D = 16


@pytest.fixture
def call(kernels: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("triton")
    from flashcore import _tensors
    from flashcore.doors import fallback

    monkeypatch.setattr(_tensors, "DEVICE", "cpu")
    return fallback.call


MASKS = [{}, {"causal": True}, {"window_size": (9, 4)}]


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize(("rows", "keys", "chunk"), [(12, 40, 7), (30, 9, 4), (8, 330, 200)], ids=str)
def test_a_chunk_hides_all_other_chunks(call: Any, mask: Any, rows: int, keys: int, chunk: int) -> None:
    """The last shape has a tile of keys without a mask. Rows before the first key see none."""
    import torch

    torch.manual_seed(0)
    q, k, v = (torch.randn(1, s, h, D).half() for s, h in ((rows, HEADS), (keys, KV_HEADS), (keys, KV_HEADS)))
    options = {**mask, "attention_chunk": chunk}
    out, lse = call("flash_attn_func", (q, k, v), {**options, "return_attn_probs": True})
    exact, exact_lse = compute(q[0].double(), k[0].double(), v[0].double(), **options)
    torch.testing.assert_close(out[0].double(), exact, rtol=0, atol=2e-3)
    torch.testing.assert_close(lse[0].double(), exact_lse, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("features", FEATURES)
def test_what_a_call_over_a_cache_may_combine(call: Any, features: str) -> None:
    """In float16, because Triton's interpreter multiplies no bfloat16."""
    case = Case(features)
    arguments, options = case.make_arguments()
    out, lse = call("flash_attn_with_kvcache", arguments, options)
    case.check(out, lse, arguments[1:], 4e-2 if "queries" in case.has else 1e-2 if "e4m3" in case.has else 3e-3)


@pytest.mark.parametrize("name", ["flash_attn_func", "flash_attn_varlen_func", "attention_e4m3"])
def test_queries_keys_and_values_of_e4m3(call: Any, name: str) -> None:
    import torch

    torch.manual_seed(2)
    tensors = [torch.randn(2, s, h, D).to(torch.float8_e4m3fn) for s, h in ((5, HEADS), (20, KV_HEADS), (20, KV_HEADS))]
    factors = [torch.rand(2, KV_HEADS) + 0.5 for _ in range(3)]
    names = ("q_scale", "k_scale", "v_scale") if name == "attention_e4m3" else ("q_descale", "k_descale", "v_descale")
    options = {**dict(zip(names, factors, strict=True)), "causal": True}
    if name == "flash_attn_varlen_func":
        starts = [torch.tensor([0, n, 2 * n], dtype=torch.int32) for n in (5, 20)]
        out = call(name, (*(tensor.flatten(0, 1) for tensor in tensors), *starts, 5, 20), options).unflatten(0, (2, 5))
    else:
        out = call(name, tuple(tensors), options)
    assert out.dtype is torch.bfloat16
    for b in range(2):
        spread = [factor[b].double().repeat_interleave(n)[:, None] for factor, n in zip(factors, (2, 1, 1), strict=True)]
        exact, _ = compute(*(tensor[b].double() * factor for tensor, factor in zip(tensors, spread, strict=True)), causal=True)
        torch.testing.assert_close(out[b].double(), exact, rtol=1e-2, atol=1e-2)


def test_every_byte_of_e4m3_is_its_number(call: Any) -> None:
    import torch

    q = torch.zeros(16, 1, 1, 16, dtype=torch.uint8)
    v = torch.arange(256, dtype=torch.uint8).view(16, 1, 1, 16)
    out = call("attention_e4m3", (q, q, v), {})
    torch.testing.assert_close(out.float(), v.view(torch.float8_e4m3fn).float(), rtol=0, atol=0, equal_nan=True)


def test_positional_arguments_are_those_of_flash_attention_3(call: Any) -> None:

    case = Case("rotary append causal")
    (q, *caches), options = case.make_arguments()
    given = (q, *caches, options["k"], options["v"], None, *case.tables, options["cache_seqlens"])
    case.check(*call("flash_attn_with_kvcache", given, {"causal": True, "return_softmax_lse": True}), caches, 3e-3)


def refuse(call: Any, name: str, arguments: Any, options: Any, reason: str) -> None:
    from flashcore.doors.choice import RefusalError

    with pytest.raises(RefusalError, match=reason):
        call(name, arguments, options)


def test_what_it_does_not_serve_is_named(call: Any) -> None:
    import torch

    q, k, v = (torch.zeros(2, 4, h, D).half() for h in (HEADS, KV_HEADS, KV_HEADS))
    refuse(call, "flash_attn_func", (q, k, v), {"qv": q}, "^qv: ")
    refuse(call, "flash_attn_func", (q, k, v), {"attention_chunk": -1}, "^attention_chunk: ")
    refuse(call, "flash_attn_func", (q, k, v), {"q_descale": torch.ones(2, KV_HEADS)}, "^q_descale: ")
    bytes_ = [tensor.to(torch.float8_e4m3fn) for tensor in (q, k, v)]
    blocks = {"k_scale": torch.ones(2, KV_HEADS, 1)}
    refuse(call, "attention_e4m3", tuple(bytes_), blocks, r"^k_descale: must have shape \(2, 2\)")


def test_nothing_is_read_outside_of_the_tensors(call: Any) -> None:
    """The Hopper kernels refuse such a call too, and then this kernel gets it."""
    import torch

    q, k, v = (torch.zeros(2, 4, h, D).half() for h in (HEADS, KV_HEADS, KV_HEADS))
    refuse(call, "flash_attn_func", (q, k[:1], v[:1]), {}, "^k: must have shape")
    refuse(call, "flash_attn_func", (q, k, v[:, :2]), {}, "^v: must have shape")
    refuse(call, "flash_attn_with_kvcache", (q, k, v), {"cache_seqlens": torch.ones(1, dtype=torch.int32)}, "^seqused_k: ")
    refuse(call, "flash_attn_with_kvcache", (q, k, v), {"sinks": torch.ones(2)}, "^sinks: ")
    table = torch.zeros(1, 3, dtype=torch.int32)
    refuse(call, "flash_attn_with_kvcache", (q, k, v), {"page_table": table}, "^page_table: ")


def test_a_refused_append_writes_nothing(call: Any) -> None:
    import torch

    case = Case("append")
    (q, *caches), options = case.make_arguments()
    before = [cache.clone() for cache in caches]
    for query in (q.clone(), q.to(torch.float8_e4m3fn)):
        refuse(call, "flash_attn_with_kvcache", (query.requires_grad_(), *caches), options, "computes no gradient")
    refuse(call, "flash_attn_with_kvcache", (q, *caches), {**options, "cache_seqlens": None}, "append needs")
    assert all(map(torch.equal, caches, before))
