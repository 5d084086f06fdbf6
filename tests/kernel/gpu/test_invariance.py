"""The bits of a prompt's attention do not depend on its batch, its pages, its pieces or how it is launched (the prefill kernels)."""

from __future__ import annotations

from typing import Any

import pytest
from operator_cases import draw

pytestmark = pytest.mark.gpu

ROWS, HEADS, KV_HEADS = 1500, 8, 2
Result = tuple[Any, Any]


def make(d: int, dtype: str) -> tuple[Any, Any, Any]:
    """Draw rows with scores wide enough that the maximum often moves."""
    import torch

    q, k, v = (draw(ROWS, heads, d, dtype=getattr(torch, dtype), seed=i) for i, heads in enumerate((HEADS, KV_HEADS, KV_HEADS)))
    k[::7] *= 6
    return q, k, v


def starts(*lengths: int) -> Any:
    import torch

    return torch.tensor([sum(lengths[:i]) for i in range(len(lengths) + 1)], dtype=torch.int32, device="cuda")


def attend(q: Any, k: Any, v: Any, **options: Any) -> Result:
    """Attend in one sequence."""
    import flashcore

    result: Result = flashcore.attention_varlen(q, k, v, starts(len(q)), starts(len(k)), causal=True, return_lse=True, **options)
    return result


def attend_to_pages(q: Any, k: Any, v: Any, page: int) -> Result:
    """Attend to the same keys in pages of random order."""
    import flashcore
    import torch

    count = -(-len(k) // page)
    order = torch.randperm(count, device="cuda", generator=torch.Generator(device="cuda").manual_seed(page))
    places = order.repeat_interleave(page)[: len(k)] * page + torch.arange(len(k), device="cuda") % page
    pools = []
    for rows in (k, v):
        pool = torch.full((count * page, *rows.shape[1:]), torch.nan, dtype=rows.dtype, device="cuda")
        pool[places] = rows
        pools.append(pool.view(count, page, *rows.shape[1:]))
    used = torch.tensor([len(k)], dtype=torch.int32, device="cuda")
    result: Result = flashcore.attention_varlen(
        q, *pools, starts(len(q)), seqused_k=used, page_table=order.int()[None], causal=True, return_lse=True
    )
    return result


def in_pieces(q: Any, k: Any, v: Any, cut: int, page: int = 0) -> Result:
    """Attend piece by piece, as a server that fills the cache in chunks."""
    import torch

    pieces = []
    for first in range(0, len(q), cut):
        keys = [rows[: first + cut] for rows in (k, v)]
        pieces.append(attend_to_pages(q[first : first + cut], *keys, page) if page else attend(q[first : first + cut], *keys))
    out, lse = zip(*pieces, strict=True)
    return torch.cat(out), torch.cat(lse, 1)


def beside_others(q: Any, k: Any, v: Any, before: int, after: int) -> Result:
    """Attend in a batch of three sequences."""
    import flashcore
    import torch

    def draw_like(rows: Any, count: int) -> Any:
        return draw(count, *rows.shape[1:], dtype=rows.dtype, seed=count)

    padded = [torch.cat((draw_like(rows, before), rows, draw_like(rows, after))) for rows in (q, k, v)]
    edges = starts(before, ROWS, after)
    out, lse = flashcore.attention_varlen(*padded, edges, edges, causal=True, return_lse=True)
    return out[before : before + ROWS], lse[:, before : before + ROWS]


def in_a_batch(q: Any, k: Any, v: Any, count: int, **options: Any) -> Result:
    """Attend in sequences of equal length, of which the last one is compared."""
    import flashcore

    batch = [rows[None].repeat(count, 1, 1, 1) for rows in (q, k, v)]
    out, lse = flashcore.flash_attn_func(*batch, causal=True, return_attn_probs=True, **options)
    return out[-1], lse[-1]


def in_a_graph(q: Any, k: Any, v: Any) -> Result:
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    edges = starts(ROWS)
    with torch.cuda.stream(stream):
        call(q, k, v, edges)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call(q, k, v, edges)
    graph.replay()
    torch.cuda.synchronize()
    return result


def call(q: Any, k: Any, v: Any, edges: Any) -> Result:
    import flashcore

    result: Result = flashcore.attention_varlen(q, k, v, edges, edges, causal=True, return_lse=True)
    return result


WAYS = {
    "equal lengths": lambda *t: in_a_batch(*t, 1),
    "batch of 9": lambda *t: in_a_batch(*t, 9),
    "sm_margin": lambda *t: in_a_batch(*t, 2, sm_margin=60),
    "neighbours": lambda *t: beside_others(*t, 333, 70),
    "other neighbours": lambda *t: beside_others(*t, 1, 2000),
    "few blocks": lambda *t: attend(*t, max_ctas=3),
    **{f"page {page}": lambda *t, page=page: attend_to_pages(*t, page) for page in (1, 16, 48, 64, 256)},
    **{f"pieces of {cut}": lambda *t, cut=cut: in_pieces(*t, cut) for cut in (128, 384, 512, 1024)},
    "pieces of 512 in pages": lambda *t: in_pieces(*t, 512, 16),
    "graph": in_a_graph,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_a_prompt_has_the_same_bits(d: int, dtype: str) -> None:
    import torch

    tensors = make(d, dtype)
    out, lse = attend(*tensors)
    different = []
    for name, way in WAYS.items():
        actual = way(*tensors)
        if not (torch.equal(actual[0], out) and torch.equal(actual[1], lse)):
            different.append(name)
    assert not different
