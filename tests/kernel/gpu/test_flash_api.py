"""FlashAttention-3's functions on a Hopper GPU, compared with the formula and, if installed, with FlashAttention-3."""

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
    """Compute attention of one sequence in float64, (rows, heads, d) and (heads, rows)."""
    group = q.shape[1] // k.shape[1]
    k, v = (tensor.double().repeat_interleave(group, dim=1) for tensor in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.double(), k) / math.sqrt(q.shape[2])
    if causal:
        hidden = torch.ones(scores.shape[1:], device="cuda", dtype=torch.bool).triu(1 + len(k) - len(q))
        scores = scores.masked_fill(hidden, -math.inf)
    lse = scores.logsumexp(-1)
    return torch.einsum("hqk,khd->qhd", (scores - lse[..., None]).exp().nan_to_num(0.0), v), lse


def close(actual: Any, expected: Any, bound: float = 2e-3) -> None:
    assert actual.shape == expected.shape
    assert not bool(actual.isnan().any())
    assert float((actual.double() - expected.double()).abs().nan_to_num(0.0).max()) < bound


@pytest.fixture(params=["formula", "fa3"])
def fa3(request: pytest.FixtureRequest) -> Any:
    """Import FlashAttention-3, or return None for the formula."""
    if request.param == "formula":
        return None
    if importlib.util.find_spec(FA3) is None:
        pytest.skip("FlashAttention-3 is not installed")
    return importlib.import_module(FA3)


@pytest.mark.parametrize("causal", [False, True])
def test_dense_prefill(flashcore: Any, fa3: Any, causal: bool) -> None:
    q, k, v = randn(2, 200, 8, 64), randn(2, 333, 2, 64), randn(2, 333, 2, 64)
    out, lse = flashcore.flash_attn_func(q, k, v, causal=causal, return_attn_probs=True)
    assert torch.equal(flashcore.flash_attn_func(q, k, v, None, causal), out)
    for i in range(2):
        exact = formula(q[i], k[i], v[i], causal=causal)
        if fa3:
            exact = tuple(t[i] for t in fa3.flash_attn_func(q, k, v, causal=causal, return_attn_probs=True)[:2])
        close(out[i], exact[0])
        close(lse[i], exact[1], 1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_ragged_prefill(flashcore: Any, fa3: Any, causal: bool) -> None:
    queries, keys = [5, 0, 130, 64], [9, 7, 300, 64]
    q, k, v = randn(sum(queries), 8, 128), randn(sum(keys), 2, 128), randn(sum(keys), 2, 128)
    starts = [torch.tensor([0, *lengths], device="cuda").cumsum(0).int() for lengths in (queries, keys)]
    arguments = (q, k, v, *starts, max(queries), max(keys))
    out, lse = flashcore.flash_attn_varlen_func(*arguments, causal=causal, return_attn_probs=True)
    if fa3:
        expected = fa3.flash_attn_varlen_func(*arguments, causal=causal, return_attn_probs=True)
        close(out, expected[0])
        close(lse, expected[1], 1e-4)
        return
    for i in range(4):
        rows, columns = (slice(int(s[i]), int(s[i + 1])) for s in starts)
        exact = formula(q[rows], k[columns], v[columns], causal=causal)
        if queries[i]:
            close(out[rows], exact[0])
            close(lse[:, rows], exact[1], 1e-4)


def make_cache(page: int, sq: int, new: int) -> tuple[dict[str, Any], list[tuple[Any, Any]]]:
    """Make arguments of flash_attn_with_kvcache, and each sequence's keys and values after the call."""
    lengths, room = [0, 17, 300, 511], 640
    k, v = randn(4, room, 2, 128), randn(4, room, 2, 128)
    appended = {"k": randn(4, new, 2, 128), "v": randn(4, new, 2, 128)} if new else {}
    sequences = []
    for i, n in enumerate(lengths):
        ends = [torch.cat([cache[i, :n], *([appended[name][i]] if new else [])]) for name, cache in (("k", k), ("v", v))]
        sequences.append((ends[0], ends[1]))
        k[i, n:], v[i, n:] = 0.0, 0.0  # FlashAttention-3 needs finite numbers there
    arguments = {"q": randn(4, sq, 8, 128), "cache_seqlens": torch.tensor(lengths, dtype=torch.int32, device="cuda"), **appended}
    if not page:
        return {**arguments, "k_cache": k, "v_cache": v}, sequences
    order = torch.randperm(4 * room // page, device="cuda")
    table = order.int().view(4, -1)
    pools = {}
    for name, cache in (("k_cache", k), ("v_cache", v)):
        pools[name] = torch.empty_like(cache).view(-1, page, 2, 128)
        pools[name][order] = cache.view(-1, page, 2, 128)
    return {**arguments, **pools, "page_table": table}, sequences


@pytest.mark.parametrize("page", [0, 64, 128])
@pytest.mark.parametrize(("sq", "new"), [(1, 0), (1, 1), (4, 4), (16, 20), (40, 0)])
def test_cache(flashcore: Any, fa3: Any, sq: int, new: int, page: int) -> None:
    arguments, sequences = make_cache(page, sq, new)
    fa3_arguments = {name: value.clone() for name, value in arguments.items()}
    out, lse = flashcore.flash_attn_with_kvcache(**arguments, causal=True, return_softmax_lse=True)
    if fa3:
        expected = fa3.flash_attn_with_kvcache(**fa3_arguments, causal=True, return_softmax_lse=True)
        close(out, expected[0])
        close(lse, expected[1], 1e-4)
        assert torch.equal(arguments["k_cache"], fa3_arguments["k_cache"])
        assert torch.equal(arguments["v_cache"], fa3_arguments["v_cache"])
        return
    for i, (k, v) in enumerate(sequences):
        exact = formula(arguments["q"][i], k, v, causal=True)
        close(out[i], exact[0])
        close(lse[i], exact[1], 1e-4)
        if not page:
            assert torch.equal(arguments["k_cache"][i, : len(k)], k)
            assert float(arguments["v_cache"][i, len(v) :].abs().sum()) == 0


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


def test_sm_margin_does_not_change_bits_of_a_prefill(flashcore: Any) -> None:
    q = randn(2, 300, 4, 64)
    assert torch.equal(flashcore.flash_attn_func(q, q, q, sm_margin=100), flashcore.flash_attn_func(q, q, q))


def host_microseconds(call: Any, count: int = 200) -> float:
    """Time a call on the host: the best of ten bursts, each behind a pause of the stream so that no launch waits.

    The result is meaningful only on an idle host and GPU.
    """
    bursts = []
    for _ in range(10):
        torch.cuda._sleep(20_000_000)
        start = time.perf_counter()
        for _ in range(count):
            call()
        bursts.append((time.perf_counter() - start) / count)
        torch.cuda.synchronize()
    return min(bursts) * 1e6


def test_host_time_of_a_call(flashcore: Any) -> None:
    arguments, _ = make_cache(64, 1, 1)
    plain, _ = make_cache(0, 1, 0)
    calls = {
        "paged, append": lambda: flashcore.flash_attn_with_kvcache(**arguments, causal=True),
        "contiguous": lambda: flashcore.flash_attn_with_kvcache(**plain, causal=True),
    }
    for call in calls.values():
        call()
    actual = {name: host_microseconds(call) for name, call in calls.items()}
    assert max(actual.values()) <= HOST_MICROSECONDS, actual
