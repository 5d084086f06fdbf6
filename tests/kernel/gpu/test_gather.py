"""Decode over pages that TMA has no box for, on a Hopper GPU: against float64, and against pages of 16 keys."""

from __future__ import annotations

import math
from typing import Any

import gpu_subjects
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

subject = gpu_subjects.load("decode")
D = (64, 128, 256)
DTYPES = ("fp16", "bf16")
PAGES = (1, 2, 3, 4, 7, 8, 15, 48, 528)


def check(**params: Any) -> None:
    inputs = subject.inputs(
        {"b": 18, "h": 8, "hkv": 2, "sq": 17, "packed": 3, "sk": 700, "d": 128, "lengths": "edges", **params}, 7
    )
    gpu_subjects.assert_correct(subject, dict(inputs), gpu_subjects.launch(subject, dict(inputs)))


def draw(*shape: int, dtype: Any = torch.bfloat16, seed: int = 5) -> Any:
    return torch.randn(shape, generator=torch.Generator(device="cuda").manual_seed(seed), device="cuda", dtype=torch.float32).to(
        dtype
    )


def same(first: Any, second: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def contiguous(shape: Any, **options: Any) -> Any:
    return torch.full(shape, math.nan, **options)


def interleaved(shape: Any, **options: Any) -> Any:
    """Keep as much room after each page: keys and values in one tensor."""
    return torch.full((shape[0], 2, *shape[1:]), math.nan, **options)[:, 0]


def heads_first(shape: Any, **options: Any) -> Any:
    return torch.full((shape[0], shape[2], shape[1], shape[3]), math.nan, **options).transpose(1, 2)


def padded(shape: Any, **options: Any) -> Any:
    """Put 16 bytes between pages."""
    size = math.prod(shape[1:])
    return torch.full((shape[0], size + 8), math.nan, **options)[:, :size].unflatten(1, shape[1:])


def to_pages(caches: Any, page: int, make: Any = contiguous, first: int = 0) -> dict[str, Any]:
    """Put caches (sequences, keys, heads, d) into pages of this size in random order, behind ``first`` others."""
    batch, keys, *rest = caches[0].shape
    width = -(-keys // page)
    table = torch.randperm(batch * width + 5, device="cuda")[: batch * width].view(batch, width) + first
    pools = []
    for cache in caches:
        rows = torch.nn.functional.pad(cache, (0, 0, 0, 0, 0, width * page - keys), value=math.nan)
        pool = make((first + batch * width + 5, page, *rest), dtype=cache.dtype, device="cuda")
        pool[table.flatten()] = rows.unflatten(1, (width, page)).flatten(0, 1)
        pools.append(pool)
    return {"k_cache": pools[0], "v_cache": pools[1], "page_table": table.int()}


def attend(q: Any, lengths: Any, paged: dict[str, Any], **options: Any) -> Any:
    import flashcore

    return flashcore.flash_attn_with_kvcache(q, cache_seqlens=lengths, causal=True, return_softmax_lse=True, **paged, **options)


@pytest.fixture(scope="module")
def problem() -> tuple[Any, Any, list[Any]]:
    """19 sequences of one query. Capacities of 2688 keys are whole pages of every size that a test compares."""
    lengths = torch.tensor([(i * 677) % 2688 + 1 for i in range(19)], dtype=torch.int32, device="cuda")
    return draw(19, 1, 8, 128), lengths, [draw(19, 2688, 4, 128, seed=i) for i in (1, 2)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("page", PAGES)
def test_lengths_next_to_page_boundaries(page: int, d: int, dtype: str) -> None:
    check(page=page, d=d, dtype=dtype)


@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("page", [1, 8, 48])
def test_many_rows_windows_and_sinks(page: int, d: int) -> None:
    check(sq=20, packed=5, h=16, page=page, d=d, sk=1217, dtype="bf16")
    check(sq=20, packed=5, h=6, page=page, d=d, sk=1217, left=300, sinks="bf16", dtype="bf16")
    check(sq=20, packed=2, h=6, page=page, d=d, sk=1217, chunk=100, softcap=2.0)
    check(b=7, sk=9000, lengths="ragged", page=page, d=d, max_ctas=2)


@pytest.mark.parametrize("page", [1, 4, 7, 8, 48])
def test_every_page_size_agrees_with_tma_and_repeats_its_bits(page: int, problem: Any) -> None:
    """A race would differ from run to run."""
    q, lengths, caches = problem
    starts = torch.arange(20, dtype=torch.int32, device="cuda")
    options = {"cu_seqlens_q": starts, "max_seqlen_q": 1}
    first = attend(q[:, 0], lengths, to_pages(caches, 16), **options)
    paged = to_pages(caches, page)
    for _ in range(20):
        out, lse = attend(q[:, 0], lengths, paged, **options)
        torch.testing.assert_close(out, first[0], rtol=1e-2, atol=1e-3)
        assert same((out, lse), attend(q[:, 0], lengths, paged, **options))
    assert same((out[:, None], lse.T[..., None]), attend(q, lengths, paged))


@pytest.mark.parametrize("make", [interleaved, heads_first, padded])
@pytest.mark.parametrize("page", [1, 7, 8])
def test_pools_in_any_strides(page: int, make: Any, problem: Any) -> None:
    q, lengths, caches = problem
    assert same(attend(q, lengths, to_pages(caches, page)), attend(q, lengths, to_pages(caches, page, make)))


@pytest.mark.parametrize("page", [1, 8])
def test_pages_past_two_to_the_31_elements(page: int, problem: Any) -> None:
    q, lengths, caches = problem
    far = 2**31 // (page * 4 * 128) + 5
    assert same(attend(q, lengths, to_pages(caches, page)), attend(q, lengths, to_pages(caches, page, first=far)))


@pytest.mark.parametrize("page", [1, 7])
def test_shared_pages_and_entries_outside_the_pool(page: int, problem: Any) -> None:
    q, lengths, caches = problem
    paged = {name: value.nan_to_num(0.5) for name, value in to_pages(caches, page).items()}
    used = torch.arange(paged["page_table"].shape[1], device="cuda") * page < lengths[:, None]
    last = len(paged["k_cache"]) - 1
    shared, wild = (torch.where(used, torch.full_like(paged["page_table"], value), -7) for value in (last, last + 9))
    assert same(attend(q, lengths, {**paged, "page_table": shared}), attend(q, lengths, {**paged, "page_table": wild}))


@pytest.mark.parametrize("window", [(-1, -1), (200, 0)])
@pytest.mark.parametrize("page", [1, 8])
def test_a_mixed_batch_as_a_server_sends_it(page: int, window: tuple[int, int], problem: Any) -> None:
    """Chunks, single queries and none, against pages of 16."""
    counts = torch.tensor([1, 40, 1, 0, 16, *[1] * 14])
    starts = torch.cat([torch.zeros(1), counts.cumsum(0)]).int().cuda()
    q, options = draw(int(counts.sum()), 8, 128), {"cu_seqlens_q": starts, "max_seqlen_q": 40, "window_size": window}
    results = [attend(q, problem[1], to_pages(problem[2], size), **options) for size in (16, page)]
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("page", [1, 8])
def test_an_append_writes_before_it_attends(page: int, problem: Any) -> None:
    q, lengths, caches = problem
    before = (lengths - 2).clamp(min=0)
    new = [draw(19, 2, 4, 128, seed=i) for i in (3, 4)]
    results = [attend(q, before, to_pages(caches, size), k=new[0], v=new[1]) for size in (16, page)]
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-3)


def test_a_captured_launch_reads_the_lengths_of_its_replay(problem: Any) -> None:
    q, lengths, caches = problem
    paged, captured = to_pages(caches, 1), lengths.clone()
    expected = [attend(q, (lengths - step).clamp(min=0), paged) for step in (0, 1, 700)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = attend(q, captured, paged)
    for step, results in [*zip((0, 1, 700), expected, strict=True)] * 3:
        captured.copy_((lengths - step).clamp(min=0))
        graph.replay()
        torch.cuda.synchronize()
        assert same(results, found)
