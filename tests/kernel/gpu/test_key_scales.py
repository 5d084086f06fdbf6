"""Decode over caches of E4M3 whose tokens or pages have scales, on a Hopper GPU: values, hard scales, strides, and appended bits."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

pytestmark = pytest.mark.gpu
BATCH, KEYS, HEADS, KV_HEADS = 3, 512, 8, 2
LENGTHS = (500, 129, 2)
HARD = (0.0, 1e-30, 1e4, -1.0, 3e-6)


def draw(*shape: int, seed: int = 0) -> Any:
    import torch

    return torch.randn(shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda")


def get_lengths(lengths: tuple[int, ...] = LENGTHS) -> Any:
    import torch

    return torch.tensor(lengths, dtype=torch.int32, device="cuda")


def make_caches(d: int) -> list[Any]:
    import torch

    return [draw(BATCH, KEYS, KV_HEADS, d, seed=i).to(torch.float8_e4m3fn) for i in (1, 2)]


def to_pages(tensor: Any, page: int) -> tuple[Any, Any]:
    """Shuffle (batch, keys, ...) into (pages, page, ...), and return the page table too."""
    import torch

    table = torch.randperm(BATCH * KEYS // page, generator=torch.Generator().manual_seed(4)).view(BATCH, -1)
    pool = torch.empty_like(tensor).view(-1, page, *tensor.shape[2:])
    pool[table.cuda()] = tensor.view(BATCH, -1, page, *tensor.shape[2:])
    return pool, table.int().cuda()


def attend(q: Any, caches: list[Any], scales: list[Any]) -> tuple[Any, Any]:
    """Compute output and log-sum-exp in float64. Scales are (batch, keys, kv heads)."""
    import torch

    out = torch.zeros(q.shape, dtype=torch.float64, device="cuda")
    lse = torch.zeros(q.shape[0], q.shape[2], dtype=torch.float64, device="cuda")
    for i, n in enumerate(LENGTHS):
        k, v, k_scale, v_scale = (x[i, :n].double().repeat_interleave(HEADS // KV_HEADS, 1) for x in (*caches, *scales))
        scores = torch.einsum("hd,khd->hk", q[i, 0].double(), k) * k_scale.T / math.sqrt(q.shape[-1])
        out[i, 0] = torch.einsum("hk,khd->hd", torch.softmax(scores, 1) * v_scale.T, v)
        lse[i] = torch.logsumexp(scores, 1)
        lse[i, out[i, 0].isnan().any(1)] = math.nan  # an infinite score
    return out, lse


@pytest.mark.parametrize("page", [0, 16, 256])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_values_are_those_of_float64(flashcore: Any, d: int, dtype: str, page: int) -> None:
    """Scales of tokens, and of pages, with heads first in memory. Where no key is they are NaN."""
    import torch

    q, caches = draw(BATCH, 1, HEADS, d).to(getattr(torch, dtype)), make_caches(d)
    unused = torch.arange(KEYS, device="cuda") >= get_lengths()[:, None]
    for size in (1, page) if page else (1,):
        own = [draw(BATCH, KEYS // size, KV_HEADS, seed=i).abs() + 0.1 for i in (7, 8)]
        full = [scale.repeat_interleave(size, 1).masked_fill(unused[:, :, None], math.nan) for scale in own]
        expected, sums = attend(q, caches, full)
        given, scales, table = list(caches), list(full), None
        if page:
            bits = [to_pages(cache.view(torch.uint8), page) for cache in caches]
            given, table = [x.view(torch.float8_e4m3fn) for x, _ in bits], bits[0][1]
            scales = [to_pages(scale, page)[0][:, : page if size == 1 else 1] for scale in full]
        scales = [scale.permute(2, 0, 1).contiguous().permute(1, 2, 0) for scale in scales]
        out, lse = flashcore.decode(
            q, *given, lengths=get_lengths(), page_table=table, k_scale=scales[0], v_scale=scales[1], return_lse=True
        )
        fine = 2e-3 if dtype == "float16" else 1.6e-2
        torch.testing.assert_close(out.double(), expected, rtol=fine, atol=fine)
        torch.testing.assert_close(lse[..., 0].double(), sums, rtol=1e-4, atol=1e-4)
        again = flashcore.flash_attn_with_kvcache(
            q, *given, cache_seqlens=get_lengths(), page_table=table, k_descale=scales[0], v_descale=scales[1]
        )
        assert torch.equal(again, out)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_hard_scales_follow_the_formula(flashcore: Any, d: int, dtype: str) -> None:
    """Zero, tiny, large, negative and infinite ones next to each other, of the keys, of the values, and of both."""
    import torch

    q, caches = draw(BATCH, 1, HEADS, d).to(getattr(torch, dtype)), make_caches(d)
    ones = torch.ones(BATCH, KEYS, KV_HEADS, device="cuda")
    number = torch.arange(ones.numel(), device="cuda").view_as(ones)
    hard = torch.where(number % 7 < len(HARD), torch.tensor([*HARD, 1.0, 1.0], device="cuda")[number % 7], ones)
    infinite = torch.where((number // KV_HEADS % KEYS == 0) & (number % KV_HEADS == 1), math.inf, ones)
    small = hard.clamp(max=20.0)  # of keys: larger scores need more digits than float32 has
    for k_scale, v_scale in (
        (small, ones),
        (ones, hard),
        (small, hard),
        (infinite, ones),
        (ones, infinite),
        (ones, ones * 1e-30),
    ):
        out, lse = flashcore.decode(q, *caches, lengths=get_lengths(), k_scale=k_scale, v_scale=v_scale, return_lse=True)
        expected, sums = attend(q, caches, [k_scale, v_scale])
        expected = expected.to(out.dtype).double()
        size = max(1e-3, float(expected[expected.isfinite()].abs().max()))
        assert torch.equal(out.isnan(), expected.isnan())
        torch.testing.assert_close(out.double(), expected, rtol=1.6e-2, atol=4e-3 * size, equal_nan=True)
        torch.testing.assert_close(lse[..., 0].double(), sums, rtol=1e-3, atol=1e-3, equal_nan=True)


def test_one_scale_has_the_bits_of_many_equal_ones(flashcore: Any) -> None:
    """One value with strides (0, 0, 0), and K's scales of sequences that are powers of two."""
    import torch

    q, caches = draw(BATCH, 1, HEADS, 128).half(), make_caches(128)
    full, one = (torch.full((BATCH, KEYS, KV_HEADS), 0.7, device="cuda"), torch.tensor([[[0.7]]], device="cuda"))
    results = [flashcore.decode(q, *caches, k_scale=x, v_scale=x) for x in (full, one.expand_as(full))]
    assert torch.equal(*results)
    half = torch.full((BATCH, KEYS, KV_HEADS), 0.5, device="cuda")
    assert torch.equal(*(flashcore.decode(q, *caches, k_scale=x) for x in (half, half[:, 0])))


@pytest.mark.parametrize(("page", "size"), [(0, 1), (16, 1), (64, 1), (16, 16), (256, 256)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_an_append_divides_by_the_scales_of_its_places(flashcore: Any, page: int, size: int, dtype: str) -> None:
    import torch

    new, lengths = 40, (470, 3, 0)
    scales = [(draw(BATCH, KEYS // size, KV_HEADS, seed=i).abs() + 0.1).repeat_interleave(size, 1) for i in (7, 8)]
    appended = [3 * draw(BATCH, new, KV_HEADS, 128, seed=i) for i in (5, 6)]
    for x in appended:
        x[..., :4] = torch.tensor([math.nan, math.inf, 1e4, -1e4], device="cuda")
    appended = [x.to(getattr(torch, dtype)) for x in appended]
    caches = [torch.full((BATCH, KEYS, KV_HEADS, 128), 0x21, dtype=torch.uint8, device="cuda") for _ in range(2)]
    expected = [cache.clone() for cache in caches]
    for (cache, x, scale), (i, n) in itertools.product(zip(expected, appended, scales, strict=True), enumerate(lengths)):
        rounded = (x[i].float() / scale[i, n : n + new, :, None]).clamp(-448, 448).to(torch.float8_e4m3fn)
        cache[i, n : n + new] = (x[i] if dtype == "float8_e4m3fn" else rounded).view(torch.uint8)
    table = None
    if page:
        table = to_pages(caches[0], page)[1]
        caches, expected, scales = ([to_pages(x, page)[0] for x in group] for group in (caches, expected, scales))
    scales = [scale[:, :1] if size > 1 else scale for scale in scales]
    flashcore.decode(
        draw(BATCH, 1, HEADS, 128).half(), *caches, lengths=get_lengths(lengths), page_table=table,
        k_new=appended[0], v_new=appended[1], k_scale=scales[0], v_scale=scales[1],
    )  # fmt: skip
    for cache, bits in zip(caches, expected, strict=True):
        assert torch.equal(cache, bits)


def test_a_graph_replays_with_other_scales(flashcore: Any) -> None:
    import torch

    q, caches = draw(BATCH, 1, HEADS, 128).half(), make_caches(128)
    scale, out = torch.rand(BATCH, KEYS, KV_HEADS, device="cuda") + 0.5, torch.empty_like(q)
    flashcore.decode(q, *caches, k_scale=scale, v_scale=scale, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        flashcore.decode(q, *caches, k_scale=scale, v_scale=scale, out=out)
    scale.copy_(torch.rand_like(scale) + 0.5)
    graph.replay()
    assert torch.equal(out, flashcore.decode(q, *caches, k_scale=scale, v_scale=scale))
