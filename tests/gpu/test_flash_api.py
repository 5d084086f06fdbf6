"""FlashAttention-3's functions on our kernels, on a real Hopper GPU: against the formula, and beside FlashAttention-3 where it is."""

from __future__ import annotations

import importlib.util
import math
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

FA3 = "flash_attn_interface"
HOST_MICROSECONDS = 12.0


def randn(*shape: int) -> Any:
    return torch.randn(shape, device="cuda", dtype=torch.float16)


def formula(q: Any, k: Any, v: Any, *, causal: bool) -> tuple[Any, Any]:
    """Attention of one sequence in float64, (rows, heads, d) and (heads, rows)."""
    group = q.shape[1] // k.shape[1]
    k, v = (tensor.double().repeat_interleave(group, dim=1) for tensor in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.double(), k) / math.sqrt(q.shape[2])
    if causal:
        hidden = torch.ones(scores.shape[1:], device="cuda", dtype=torch.bool).triu(1 + len(k) - len(q))
        scores = scores.masked_fill(hidden, -math.inf)
    lse = scores.logsumexp(-1)
    return torch.einsum("hqk,khd->qhd", (scores - lse[..., None]).exp().nan_to_num(0.0), v), lse


def close(found: Any, expected: Any, bound: float = 2e-3) -> None:
    assert found.shape == expected.shape
    assert not bool(found.isnan().any())
    assert float((found.double() - expected.double()).abs().nan_to_num(0.0).max()) < bound


@pytest.fixture(params=["formula", "fa3"])
def others(request: pytest.FixtureRequest) -> Any:
    """FlashAttention-3's module, or None for the formula."""
    if request.param == "formula":
        return None
    if importlib.util.find_spec(FA3) is None:
        pytest.skip("FlashAttention-3 is not installed")
    return importlib.import_module(FA3)


@pytest.mark.parametrize("causal", [False, True])
def test_dense_prefill(flashcore: Any, others: Any, causal: bool) -> None:
    q, k, v = randn(2, 200, 8, 64), randn(2, 333, 2, 64), randn(2, 333, 2, 64)
    out, lse = flashcore.flash_attn_func(q, k, v, causal=causal, return_attn_probs=True)
    assert torch.equal(flashcore.flash_attn_func(q, k, v, None, causal), out)
    for i in range(2):
        exact = formula(q[i], k[i], v[i], causal=causal)
        if others:
            exact = tuple(t[i] for t in others.flash_attn_func(q, k, v, causal=causal, return_attn_probs=True)[:2])
        close(out[i], exact[0])
        close(lse[i], exact[1], 1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_ragged_prefill(flashcore: Any, others: Any, causal: bool) -> None:
    queries, keys = [5, 0, 130, 64], [9, 7, 300, 64]
    q, k, v = randn(sum(queries), 8, 128), randn(sum(keys), 2, 128), randn(sum(keys), 2, 128)
    starts = [torch.tensor([0, *lengths], device="cuda").cumsum(0).int() for lengths in (queries, keys)]
    given = (q, k, v, *starts, max(queries), max(keys))
    out, lse = flashcore.flash_attn_varlen_func(*given, causal=causal, return_attn_probs=True)
    if others:
        expected = others.flash_attn_varlen_func(*given, causal=causal, return_attn_probs=True)
        close(out, expected[0])
        close(lse, expected[1], 1e-4)
        return
    for i in range(4):
        rows, columns = (slice(int(s[i]), int(s[i + 1])) for s in starts)
        exact = formula(q[rows], k[columns], v[columns], causal=causal)
        if queries[i]:
            close(out[rows], exact[0])
            close(lse[:, rows], exact[1], 1e-4)


def cached(page: int, sq: int, new: int) -> tuple[dict[str, Any], list[tuple[Any, Any]]]:
    """Arguments of flash_attn_with_kvcache, and every sequence's keys and values as they are afterwards."""
    lengths, room = [0, 17, 300, 511], 640
    k, v = randn(4, room, 2, 128), randn(4, room, 2, 128)
    appended = {"k": randn(4, new, 2, 128), "v": randn(4, new, 2, 128)} if new else {}
    whole = []
    for i, n in enumerate(lengths):
        ends = [torch.cat([cache[i, :n], *([appended[name][i]] if new else [])]) for name, cache in (("k", k), ("v", v))]
        whole.append((ends[0], ends[1]))
        k[i, n:], v[i, n:] = 0.0, 0.0  # FlashAttention-3 asks for numbers there
    given = {"q": randn(4, sq, 8, 128), "cache_seqlens": torch.tensor(lengths, dtype=torch.int32, device="cuda"), **appended}
    if not page:
        return {**given, "k_cache": k, "v_cache": v}, whole
    order = torch.randperm(4 * room // page, device="cuda")
    table = order.int().view(4, -1)
    pools = {}
    for name, cache in (("k_cache", k), ("v_cache", v)):
        pools[name] = torch.empty_like(cache).view(-1, page, 2, 128)
        pools[name][order] = cache.view(-1, page, 2, 128)
    return {**given, **pools, "page_table": table}, whole


@pytest.mark.parametrize("page", [0, 64, 128])
@pytest.mark.parametrize(("sq", "new"), [(1, 0), (1, 1), (4, 4), (16, 20), (40, 0)])
def test_cache(flashcore: Any, others: Any, sq: int, new: int, page: int) -> None:
    given, whole = cached(page, sq, new)
    theirs = {name: value.clone() for name, value in given.items()}
    if sq > 16 and page:
        with pytest.raises(NotImplementedError, match="page_table"):
            flashcore.flash_attn_with_kvcache(**given, causal=True)
        return
    out, lse = flashcore.flash_attn_with_kvcache(**given, causal=True, return_softmax_lse=True)
    if others:
        expected = others.flash_attn_with_kvcache(**theirs, causal=True, return_softmax_lse=True)
        close(out, expected[0])
        close(lse, expected[1], 1e-4)
        assert torch.equal(given["k_cache"], theirs["k_cache"])
        assert torch.equal(given["v_cache"], theirs["v_cache"])
        return
    for i, (k, v) in enumerate(whole):
        exact = formula(given["q"][i], k, v, causal=True)
        close(out[i], exact[0])
        close(lse[i], exact[1], 1e-4)
        if not page:
            assert torch.equal(given["k_cache"][i, : len(k)], k)
            assert float(given["v_cache"][i, len(v) :].abs().sum()) == 0


@pytest.mark.parametrize("sq", [3, 50])
def test_one_length_for_all(flashcore: Any, sq: int) -> None:
    q, k, v = randn(2, sq, 8, 128), randn(2, 400, 2, 128), randn(2, 400, 2, 128)
    new = randn(2, sq, 2, 128)
    k[:, 300:], v[:, 300:] = math.nan, math.nan
    out = flashcore.flash_attn_with_kvcache(q, k, v, new, new, cache_seqlens=300, causal=True)
    assert torch.equal(k[:, 300 : 300 + sq], new)
    assert bool(k[:, 300 + sq :].isnan().all())
    for i in range(2):
        close(out[i], formula(q[i], k[i, : 300 + sq], v[i, : 300 + sq], causal=True)[0])


@pytest.mark.parametrize(("sq", "d"), [(1, 96), (16, 96), (3, 8), (2, 192)])
@pytest.mark.parametrize("lengths", [[300, 300], [17, 400]])
def test_other_head_dimensions_over_a_cache(flashcore: Any, sq: int, d: int, lengths: list[int]) -> None:
    q, k, v, new = randn(2, sq, 8, d), randn(2, 400, 2, d), randn(2, 400, 2, d), randn(2, sq, 2, d)
    if lengths[0] == lengths[1]:
        out = flashcore.flash_attn_with_kvcache(q, k, v, new, new, cache_seqlens=lengths[0], causal=True)
        assert torch.equal(k[:, 300 : 300 + sq], new)
        lengths = [300 + sq] * 2
    else:
        cache_seqlens = torch.tensor(lengths, dtype=torch.int32, device="cuda")
        out = flashcore.flash_attn_with_kvcache(q, k, v, cache_seqlens=cache_seqlens, causal=True)
    for i, n in enumerate(lengths):
        close(out[i], formula(q[i], k[i, :n], v[i, :n], causal=True)[0])


def test_multiprocessors_that_are_left_to_others_change_no_bit_of_a_prefill(flashcore: Any) -> None:
    q = randn(2, 300, 4, 64)
    assert torch.equal(flashcore.flash_attn_func(q, q, q, sm_margin=100), flashcore.flash_attn_func(q, q, q))


def host_microseconds(call: Any, count: int = 200) -> float:
    """The least time of a call on the host, of ten bursts behind a pause of the stream: no launch waits for the device.

    It means something only while nobody else uses this host or its GPU.
    """
    bursts = []
    for _ in range(10):
        torch.cuda._sleep(20_000_000)
        began = time.perf_counter()
        for _ in range(count):
            call()
        bursts.append((time.perf_counter() - began) / count)
        torch.cuda.synchronize()
    return min(bursts) * 1e6


def test_a_call_costs_the_host_little(flashcore: Any) -> None:
    given, _ = cached(64, 1, 1)
    plain, _ = cached(0, 1, 0)
    calls = {
        "paged, append": lambda: flashcore.flash_attn_with_kvcache(**given, causal=True),
        "contiguous": lambda: flashcore.flash_attn_with_kvcache(**plain, causal=True),
    }
    for call in calls.values():
        call()
    found = {name: host_microseconds(call) for name, call in calls.items()}
    assert max(found.values()) <= HOST_MICROSECONDS, found
