"""Decode over caches of E4M3 on a Hopper GPU: range of queries, scales, storage, and the bits of appended keys."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

pytestmark = pytest.mark.gpu
BATCH, KEYS, HEADS, KV_HEADS = 3, 500, 8, 2
LENGTHS = (500, 129, 0)


def draw(*shape: int, seed: int = 0, factor: float = 1.0) -> Any:
    import torch

    return torch.randn(shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda") * factor


def make_caches(d: int) -> tuple[Any, Any]:
    import torch

    return tuple(draw(BATCH, KEYS, KV_HEADS, d, seed=i).to(torch.float8_e4m3fn) for i in (1, 2))  # type: ignore[return-value]


def attend(q: Any, caches: tuple[Any, Any], scales: tuple[Any, Any], lengths: tuple[int, ...] = LENGTHS) -> tuple[Any, Any]:
    """Compute output and log-sum-exp in float64. The scales multiply scores and outputs, so infinite ones give infinity, not NaN."""
    import torch

    out, lse = (
        torch.zeros(q.shape, dtype=torch.float64, device="cuda"),
        torch.full((len(q), q.shape[2]), -math.inf).double().cuda(),
    )
    for i, n in enumerate(lengths):
        k, v = (cache[i, :n].double().repeat_interleave(HEADS // KV_HEADS, 1) for cache in caches)
        k_scale, v_scale = (scale[i].double().repeat_interleave(HEADS // KV_HEADS)[:, None] for scale in scales)
        if n:
            scores = torch.einsum("hd,khd->hk", q[i, 0].double(), k) * k_scale / math.sqrt(q.shape[-1])
            out[i, 0] = torch.einsum("hk,khd->hd", torch.softmax(scores, 1), v) * v_scale
            lse[i] = torch.logsumexp(scores, 1)
    return out, lse


def make_scale(value: float) -> Any:
    import torch

    return torch.full((BATCH, KV_HEADS), value, device="cuda")


def get_lengths() -> Any:
    import torch

    return torch.tensor(LENGTHS, dtype=torch.int32, device="cuda")


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("kind", ["1e5", "1e-6", "outlier"])
def test_a_bf16_query_beyond_the_range_of_fp16(flashcore: Any, d: int, kind: str) -> None:
    import torch

    q = draw(BATCH, 1, HEADS, d)
    factor = {"1e5": 1e5, "1e-6": 1e-6, "outlier": 1.0}[kind]
    if kind == "outlier":
        q[..., 3] *= 1e5
    q, caches = (q * factor).bfloat16(), make_caches(d)
    scales = (make_scale(1.0 / (factor if kind != "outlier" else 1e5)), make_scale(0.5))
    out, lse = flashcore.decode(q, *caches, lengths=get_lengths(), k_scale=scales[0], v_scale=scales[1], return_lse=True)
    expected, sums = attend(q, caches, scales)
    torch.testing.assert_close(out.double(), expected, rtol=1.6e-2, atol=4e-3)
    torch.testing.assert_close(lse[..., 0].double(), sums, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("k_value", "v_value"), list(itertools.product([0.0, 1e-30, math.inf, -1.0], [1.0, 0.0, math.inf])))
def test_scales_follow_the_formula(flashcore: Any, k_value: float, v_value: float) -> None:
    import torch

    q, caches, scales = draw(BATCH, 1, HEADS, 128).half(), make_caches(128), (make_scale(k_value), make_scale(v_value))
    out = flashcore.decode(q, *caches, k_scale=scales[0], v_scale=scales[1])
    expected, _ = attend(q, caches, scales, (KEYS,) * BATCH)
    if math.isinf(v_value):  # fp16 rounds a sum near zero to either side of it
        near_zero = attend(q, caches, (scales[0], make_scale(1.0)), (KEYS,) * BATCH)[0].abs() < 1e-4
        out, expected = (x.double().masked_fill(near_zero, 0.0) for x in (out, expected))
    torch.testing.assert_close(out.double(), expected, rtol=2e-3, atol=2e-3, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_strides_and_storage_do_not_matter(flashcore: Any, dtype: str) -> None:
    """One value with strides (0, 0), as vLLM passes it, equals a full tensor. Bytes equal E4M3."""
    import torch

    q, caches = draw(BATCH, 1, HEADS, 128).to(getattr(torch, dtype)), make_caches(128)
    queries = {"q_scale": make_scale(0.7)} if dtype == "float8_e4m3fn" else {}
    full = flashcore.decode(q, *caches, lengths=get_lengths(), k_scale=make_scale(0.3), v_scale=make_scale(1.7), **queries)
    strided = {name: scale[:1, :1].clone().expand(BATCH, KV_HEADS) for name, scale in queries.items()}
    one = [torch.tensor([[value]], device="cuda").expand(BATCH, KV_HEADS) for value in (0.3, 1.7)]
    columns = [make_scale(value).T.contiguous().T for value in (0.3, 1.7)]
    stored = [cache.view(torch.uint8) for cache in caches]
    for k_scale, v_scale in (one, columns):
        out = flashcore.decode(q, *stored, lengths=get_lengths(), k_scale=k_scale, v_scale=v_scale, **strided)
        assert torch.equal(out, full)


@pytest.mark.parametrize("page", [0, 16, 64, 256])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_an_append_writes_the_bits_of_torch(flashcore: Any, page: int, dtype: str) -> None:
    """Also NaN, infinity, values that clamp, ties and subnormal results, across pages."""
    import torch

    rows, new, lengths = 512, 40, torch.tensor([470, 3, 0], dtype=torch.int32, device="cuda")
    scales = [draw(BATCH, KV_HEADS, seed=i).abs() + 0.1 for i in (7, 8)]
    hard = torch.tensor([math.nan, -math.nan, math.inf, -math.inf, 1e4, -1e4, 0.0, -0.0, 2.0**-9, 3 * 2.0**-10, 17.0, 19.0])
    appended = [draw(BATCH, new, KV_HEADS, 128, seed=i, factor=3.0) for i in (5, 6)]
    for x in appended:
        x[..., : len(hard)] = hard.cuda()
    appended = [x.to(getattr(torch, dtype)) for x in appended]
    caches = [torch.full((BATCH, rows, KV_HEADS, 128), 0x21, dtype=torch.uint8, device="cuda") for _ in range(2)]
    expected = [cache.clone() for cache in caches]
    for cache, x, scale in zip(expected, appended, scales, strict=True):
        bits = x if dtype == "float8_e4m3fn" else (x.float() / scale[:, None, :, None]).clamp(-448, 448).to(torch.float8_e4m3fn)
        for i, n in enumerate(lengths.tolist()):
            cache[i, n : n + new] = bits[i].view(torch.uint8)
    table = None
    if page:
        table = torch.randperm(BATCH * rows // page, device="cuda").view(BATCH, -1)
        for i, cache in enumerate(caches):
            pool = torch.empty(BATCH * rows // page, page, KV_HEADS, 128, dtype=torch.uint8, device="cuda")
            pool[table] = cache.view(BATCH, -1, page, KV_HEADS, 128)
            caches[i] = pool
    q = draw(BATCH, 1, HEADS, 128).half()
    pages = None if table is None else table.int()
    flashcore.decode(
        q, *caches, lengths=lengths, page_table=pages, k_new=appended[0], v_new=appended[1], k_scale=scales[0], v_scale=scales[1]
    )
    for cache, bits in zip(caches, expected, strict=True):
        assert torch.equal(cache if table is None else cache[table].view(bits.shape), bits)


@pytest.mark.parametrize("name", ["q", "k", "v", "k_new"])
def test_e5m2_is_refused_by_name(flashcore: Any, name: str) -> None:
    import torch

    k, v = make_caches(128)
    new = draw(BATCH, 1, KV_HEADS, 128).half()
    tensors = {"q": draw(BATCH, 1, HEADS, 128).half(), "k": k, "v": v, "k_new": new, "v_new": new}
    tensors[name] = tensors[name].float().to(torch.float8_e5m2)
    with pytest.raises(ValueError, match=rf"^{name}: .*float8_e5m2"):
        flashcore.decode(**tensors, lengths=10)
