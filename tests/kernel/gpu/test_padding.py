"""Left padding, an index into a page table, and rotary embedding before an append, on a Hopper GPU."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from operator_cases import draw

pytestmark = pytest.mark.gpu

LENGTHS, PADDING = (300, 77, 128, 5), (0, 76, 31, 5)


def make_int32(*values: int) -> Any:
    import torch

    return torch.tensor(values, dtype=torch.int32, device="cuda")


def make_cache(size: int | None, *, index: bool) -> tuple[Any, dict[str, Any], list[Any]]:
    """Return caches, the arguments that describe them, and the keys and values of every sequence."""
    import torch

    batch, capacity = len(LENGTHS), 384
    rows = 2 * batch if index else batch
    chosen = torch.randperm(rows, device="cuda").to(torch.int32)[:batch]
    arguments: dict[str, Any] = {"cache_batch_idx": chosen} if index else {}
    if size is None:
        caches = [draw(rows, capacity, 2, 128, seed=i) for i in (1, 2)]
        plain = caches
    else:
        table = torch.randperm(rows * capacity // size, device="cuda").to(torch.int32).view(rows, -1)
        caches = [draw(table.numel(), size, 2, 128, seed=i) for i in (1, 2)]
        plain = [cache[table.long()].flatten(1, 2) for cache in caches]
        arguments["page_table"] = table
    return caches, arguments, [cache[chosen.long()] if index else cache for cache in plain]


@pytest.mark.parametrize(("queries", "packed"), list(itertools.product((1, 5, 40), (False, True))))
@pytest.mark.parametrize(("size", "index"), [(None, False), (None, True), (1, False), (16, False), (48, True), (128, False)])
def test_padding_hides_the_first_keys(flashcore: Any, size: int | None, queries: int, *, index: bool, packed: bool) -> None:
    import torch

    caches, arguments, plain = make_cache(size, index=index)
    q = draw(len(LENGTHS), queries, 8, 128, seed=3)
    if packed:
        arguments |= {"cu_seqlens_q": make_int32(*range(0, queries * len(LENGTHS) + 1, queries)), "max_seqlen_q": queries}
    out, lse = flashcore.flash_attn_with_kvcache(
        q.flatten(0, 1) if packed else q, *caches, cache_seqlens=make_int32(*LENGTHS), cache_leftpad=make_int32(*PADDING),
        causal=True, return_softmax_lse=True, **arguments,
    )  # fmt: skip
    out, lse = (out.view(q.shape), lse.view(8, len(LENGTHS), queries).transpose(0, 1)) if packed else (out, lse)
    for i, (length, padding) in enumerate(zip(LENGTHS, PADDING, strict=True)):
        visible = [cache[i : i + 1, padding:length] for cache in plain]
        expected, expected_lse = flashcore.flash_attn_func(q[i : i + 1], *visible, causal=True, return_attn_probs=True)
        torch.testing.assert_close(out[i : i + 1], expected, rtol=2e-2, atol=2e-3)
        torch.testing.assert_close(lse[i : i + 1], expected_lse, rtol=1e-3, atol=1e-3)


def turn(rows: Any, cos: Any, sin: Any, first: int, *, interleaved: bool, counts_up: bool) -> Any:
    """Rotate (rows, heads, d) column by column in float64."""
    result, half = rows.double().clone(), cos.shape[1]
    for i, j in itertools.product(range(len(rows)), range(half)):
        a, b = (2 * j, 2 * j + 1) if interleaved else (j, j + half)
        at = first + i * counts_up
        x, y = rows[i, :, a].double(), rows[i, :, b].double()
        result[i, :, a] = x * cos[at, j].double() - y * sin[at, j].double()
        result[i, :, b] = x * sin[at, j].double() + y * cos[at, j].double()
    return result.to(rows.dtype)


@pytest.mark.parametrize(("interleaved", "causal", "packed"), list(itertools.product((False, True), repeat=3)))
@pytest.mark.parametrize(("columns", "size"), [(64, None), (128, 16), (32, 48)])
def test_rotary_turns_queries_and_new_keys(
    flashcore: Any, columns: int, size: int | None, *, interleaved: bool, causal: bool, packed: bool
) -> None:
    import torch

    batch, queries, lengths = len(LENGTHS), 3, make_int32(300, 77, 0, 5)
    caches, arguments, _ = make_cache(size, index=False)
    q, k, v = (draw(batch, queries, heads, 128, seed=i) for i, heads in ((3, 8), (4, 2), (5, 2)))
    cos, sin = (draw(400, columns // 2, seed=i) for i in (6, 7))
    first = lengths.tolist()
    turned = [
        torch.stack([turn(t[i], cos, sin, first[i], interleaved=interleaved, counts_up=up) for i in range(batch)])
        for t, up in ((q, causal), (k, True))
    ]
    if packed:
        starts = make_int32(*range(0, queries * batch + 1, queries))
        arguments |= {"cu_seqlens_q": starts, "cu_seqlens_k_new": starts, "max_seqlen_q": queries}
    results = []
    for given, tables in (((turned[0], turned[1], v), {}), ((q, k, v), {"rotary_cos": cos, "rotary_sin": sin})):
        copies = [cache.clone() for cache in caches]
        q_, k_, v_ = (t.flatten(0, 1) if packed else t for t in given)
        out = flashcore.flash_attn_with_kvcache(
            q_, *copies, k_, v_, cache_seqlens=lengths, causal=causal, rotary_interleaved=interleaved, **tables, **arguments
        )
        results.append((out, *copies))
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)


def test_the_operator_of_flash_attention_3_takes_both(flashcore: Any) -> None:
    import flashcore.fa3
    import torch

    caches, arguments, _ = make_cache(16, index=True)
    q, k, v = (draw(len(LENGTHS), 2, heads, 128, seed=i) for i, heads in ((3, 8), (4, 2), (5, 2)))
    cos, sin = (draw(400, 32, seed=i) for i in (6, 7))
    lengths, padding = make_int32(*LENGTHS), make_int32(*PADDING)
    copies = [[cache.clone() for cache in caches] for _ in range(2)]
    expected = flashcore.flash_attn_with_kvcache(
        q,
        *copies[0],
        k,
        v,
        cache_seqlens=lengths,
        cache_leftpad=padding,
        rotary_cos=cos,
        rotary_sin=sin,
        causal=True,
        **arguments,
    )
    actual = torch.ops.flash_attn_3.fwd(
        q, *copies[1], k, v, seqused_k=lengths, leftpad_k=padding, rotary_cos=cos, rotary_sin=sin, is_rotary_interleaved=True,
        is_causal=True, kv_batch_idx=arguments["cache_batch_idx"], page_table=arguments["page_table"],
    )  # fmt: skip
    assert torch.equal(actual[0], expected)
    assert all(map(torch.equal, *copies))
