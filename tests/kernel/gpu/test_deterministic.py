"""The bits of deterministic decode on a Hopper GPU: the same on any number of CTAs, next to any sequences, in any pages, from a graph."""

from __future__ import annotations

from typing import Any

import gpu_subjects
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

subject = gpu_subjects.load("decode")
KEYS = (1, 255, 257, 4096, 9001, 33333)
HEADS, KV_HEADS = 8, 2
Result = tuple[Any, Any]


def draw(rows: int, heads: int, d: int, seed: int) -> Any:
    """Draw rows with scores wide enough that the maximum often moves."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    tensor = torch.randn((rows, heads, d), generator=generator, device="cuda").bfloat16()
    tensor[::7] *= 4
    return tensor


def draw_cache(keys: int, d: int, seed: int) -> tuple[Any, Any]:
    """Draw keys in pairs with opposite values. The exact output is near 0, so rounding shows the order of additions."""
    k, v = draw(keys // 2, KV_HEADS, d, seed), draw(keys // 2, KV_HEADS, d, seed + 1) * 100
    rest = draw(keys % 2, KV_HEADS, d, seed + 2)
    return torch.cat([k, k, rest]), torch.cat([v, -v, rest * 0])


def decode(q: Any, caches: list[tuple[Any, Any]], page: int = 0, **options: Any) -> Result:
    """Decode a batch whose caches are full to these lengths. Memory that no key uses is NaN."""
    import flashcore

    lengths = [len(k) for k, _ in caches]
    used = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    most, table, tensors = max(lengths), None, []
    if page:
        width = -(-most // page)
        table = torch.randperm(len(caches) * width, device="cuda").int().view(-1, width)
    for side in (0, 1):
        rows = torch.full(
            (len(caches), -(-most // (page or 1)) * (page or 1), *caches[0][0].shape[1:]), torch.nan, device="cuda"
        ).bfloat16()
        for i, cache in enumerate(caches):
            rows[i, : lengths[i]] = cache[side]
        if table is not None:
            pool = torch.empty_like(rows).view(-1, page, *rows.shape[2:])
            pool[table.long().flatten()] = rows.view(-1, page, *rows.shape[2:])
            rows = pool
        tensors.append(rows)
    options = {"deterministic": True, "causal": True, "return_lse": True, **options}
    result: Result = flashcore.decode(q, *tensors, lengths=used, page_table=table, **options)
    return result


def same(first: Result, second: Result, at: int = 0) -> bool:
    return all(torch.equal(a[0], b[at]) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("sq", [1, 3, 16])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_bits_follow_the_sequence_alone(d: int, sq: int) -> None:
    for seed, keys in enumerate(KEYS):
        q = draw(sq, HEADS, d, seed)[None]
        cache = draw_cache(keys, d, seed + 50)
        alone = decode(q, [cache])
        for ctas in (1, 2, 7, 61, 131):
            assert same(alone, decode(q, [cache], max_ctas=ctas)), (keys, ctas)
        for page in (16, 64, 128, 256):
            assert same(alone, decode(q, [cache], page=page)), (keys, page)
        others = [(draw(n, KV_HEADS, d, n), draw(n, KV_HEADS, d, n + 1)) for n in (700, 1, 5000, 20000)]
        queries = torch.cat([draw(4 * sq, HEADS, d, 5).unflatten(0, (4, sq)), q])
        assert same(alone, decode(queries, [*others, cache]), 4), keys
        assert same(alone, decode(torch.cat([q] * 40), [cache] * 40, page=16), 17), keys


@pytest.mark.parametrize("d", [64, 128, 256])
def test_a_graph_gives_the_same_bits(d: int) -> None:
    q, cache = draw(1, HEADS, d, 1)[None], (draw(9000, KV_HEADS, d, 2), draw(9000, KV_HEADS, d, 3))
    eager, out = decode(q, [cache]), torch.empty_like(q)
    k, v = (rows[None] for rows in cache)
    import flashcore

    used = torch.tensor([9000], dtype=torch.int32, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        flashcore.decode(q, k, v, lengths=used, deterministic=True, out=out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    out.zero_()
    with torch.cuda.graph(graph):
        flashcore.decode(q, k, v, lengths=used, deterministic=True, out=out)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, eager[0])


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize(("sq", "h", "page"), [(1, 8, 0), (1, 8, 16), (2, 32, 64), (16, 16, 0)])
def test_values(sq: int, h: int, page: int, d: int, dtype: str) -> None:
    params = {
        "b": 7,
        "h": h,
        "hkv": 2,
        "sq": sq,
        "sk": 6000,
        "d": d,
        "dtype": dtype,
        "page": page,
        "lengths": "ragged",
        "deterministic": True,
    }
    inputs = dict(subject.inputs(params, 3))
    gpu_subjects.assert_correct(subject, inputs, gpu_subjects.launch(subject, inputs))


@pytest.mark.parametrize("vary", ["ctas", "batch"])
def test_the_subject_varies_its_launches(vary: str) -> None:
    inputs = dict(
        subject.inputs(
            {"b": 5, "h": 8, "hkv": 2, "sk": 9000, "d": 128, "lengths": "ragged", "deterministic": True, "vary": vary}, 3
        )
    )
    results = [gpu_subjects.launch(subject, inputs) for _ in range(7)]
    assert all(torch.equal(results[0][name], result[name]) for result in results for name in ("out", "lse"))
