"""Windows, chunks, capped scores and sinks against the formula in float64, on a Hopper GPU."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from window_cases import (  # noqa: E402 - needs torch
    DTYPES,
    TILE,
    Options,
    attend,
    check_packed,
    compare,
    cumulate,
    draw,
    fill_pages,
    make_batch,
    randn,
)

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [40, 64, 128, 256])
def test_sequences_of_equal_length(flashcore: Any, d: int, dtype: Any) -> None:
    rng = random.Random(d)
    torch.manual_seed(d)
    for _ in range(25):
        b, hkv, group = rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((1, 3))
        sq, sk = rng.choice((1, 64, 193, 500, 700)), rng.choice((1, 64, 128, 300, 700, 1100))
        options = draw(rng, hkv * group)
        q, k, v = randn(b, sq, hkv * group, d, dtype=dtype), randn(b, sk, hkv, d, dtype=dtype), randn(b, sk, hkv, d, dtype=dtype)
        out, lse = flashcore.attention(q, k, v, return_lse=True, **options.arguments())
        for i in range(b):
            wrong = compare((out[i], lse[i]), attend(q[i], k[i], v[i], options), dtype)
            assert not wrong, (wrong, sq, sk, options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("paged", [False, True])
def test_sequences_of_different_lengths(flashcore: Any, d: int, dtype: Any, paged: bool) -> None:
    rng = random.Random(d + paged)
    torch.manual_seed(d)
    for _ in range(12):
        h, hkv = rng.choice(((1, 1), (4, 2), (3, 1)))
        lengths = make_batch(rng, 400)
        options = draw(rng, h)
        queries, keys = ([pair[i] for pair in lengths] for i in (0, 1))
        q, k, v = (
            randn(sum(queries), h, d, dtype=dtype),
            randn(sum(keys), hkv, d, dtype=dtype),
            randn(sum(keys), hkv, d, dtype=dtype),
        )
        if paged:
            pk, pv, table = fill_pages(k, v, keys, rng.choice((16, 64, 1, 48)), rng)
            used = torch.tensor(keys, dtype=torch.int32, device="cuda")
            out, lse = flashcore.attention_varlen(
                q, pk, pv, cumulate(queries), seqused_k=used, page_table=table, return_lse=True, **options.arguments()
            )
        else:
            out, lse = flashcore.attention_varlen(
                q, k, v, cumulate(queries), cumulate(keys), return_lse=True, **options.arguments()
            )
        check_packed(out, lse, (q, k, v), lengths, options, dtype)


SINKS = (-math.inf, 80.0, 3e4, 1e30, -1e30, 0.0)


@pytest.mark.parametrize("sink_type", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [1.0, 1e4])
@pytest.mark.parametrize("softcap", [0.0, 0.1, 15.0, 50.0])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_large_scores_and_any_sinks(flashcore: Any, d: int, softcap: float, size: float, sink_type: Any) -> None:
    torch.manual_seed(1)
    h, dtype = len(SINKS), torch.bfloat16
    sinks = torch.tensor(SINKS, device="cuda").to(sink_type)
    root = math.sqrt(size)
    for sq, sk in ((300, 700), (3, 700), (400, 200)):
        for left, sign in ((-1, 1), (90, 1), (600, -1)):
            q, k = (randn(1, n, heads, d, dtype=dtype).mul(root) for n, heads in ((sq, h), (sk, 1)))
            k *= torch.linspace(0.2, 1, sk, device="cuda").to(dtype)[None, :, None, None]  # the max rises, or falls with the sign
            v = randn(1, sk, 1, d, dtype=dtype)
            options = Options(left=left, causal=True, softcap=softcap, sinks=sinks, scale=sign * d**-0.5)
            right = attend(q[0], k[0], v[0], options)
            results = [flashcore.attention(q, k, v, return_lse=True, **options.arguments())]
            if sq < 16:
                results += [flashcore.decode(q, k, v, return_lse=True, splits=n, **options.arguments()) for n in (0, 1, 4)]
            for out, lse in results:
                wrong = compare((out[0], lse[0]), right, dtype, factor=2.0)
                assert not wrong, (wrong, sq, sk, left, sign)


def test_empty_rows_give_zeros_and_the_sink(flashcore: Any) -> None:
    for d in (64, 128, 256):
        q, k = randn(1, 500, 2, d, dtype=torch.bfloat16), randn(1, 100, 2, d, dtype=torch.bfloat16)
        sinks = torch.tensor([1.5, -2.0], device="cuda")
        for given in (None, sinks):
            out, lse = flashcore.attention(q, k, k, causal=True, window=(50, 0), sinks=given, return_lse=True)
            assert not out[0, :400].any()
            wanted = torch.full((2, 400), -math.inf, device="cuda") if given is None else sinks[:, None].expand(2, 400)
            assert torch.equal(lse[0, :, :400], wanted)
        for keys in (0, 1):
            out, lse = flashcore.decode(q[:, :5], k, k, lengths=keys, causal=True, window=(3, 0), sinks=sinks, return_lse=True)
            assert not out[0, : 5 - keys].any()
            assert torch.equal(lse[0, :, : 5 - keys], sinks[:, None].expand(2, 5 - keys))
        out, lse = flashcore.attention(q, k[:, :0], k[:, :0], sinks=sinks, return_lse=True)
        assert not out.any()
        assert torch.equal(lse[0], sinks[:, None].expand(2, 500))


def count(call: Any, *tensors: Any, **arguments: Any) -> int:
    loaded = torch.zeros(1, dtype=torch.int32, device="cuda")
    call(*tensors, loaded_tiles=loaded, **arguments)
    return int(loaded.item())


@pytest.mark.parametrize("d", [64, 128, 256])
def test_only_tiles_in_the_window_are_loaded(flashcore: Any, d: int) -> None:
    s, h, tile, rows = 4096, 2, TILE[d], 192 if d == 64 else 128
    q = randn(1, s, h, d, dtype=torch.bfloat16)
    for left, right in ((0, 0), (100, 0), (1024, 0), (300, 200), (-1, 0), (128, -1)):
        options = Options(left=left, right=right)
        seen = options.see(s, s)
        wanted = 0
        for row in range(0, s, rows):
            keys = seen[row : row + rows].any(0).nonzero()
            wanted += h * (int(keys[-1]) // tile - int(keys[0]) // tile + 1)
        assert count(flashcore.attention, q, q, q, window=(left, right)) == wanted
        starts = cumulate([s])
        assert count(flashcore.attention_varlen, q[0], q[0], q[0], starts, starts, window=(left, right)) == wanted
    cache = randn(3, 8192, h, d, dtype=torch.bfloat16)
    lengths = torch.tensor([8192, 5000, 70], dtype=torch.int32, device="cuda")
    decode_tile, heads = {64: (128, 1), 128: (64, 1), 256: (32, 1)}[d]
    if d == 64:
        decode_tile = 64  # two KV heads share a tile
        heads = 2
    for left in (0, 127, 1000):
        wanted = sum((n - 1) // decode_tile - max(0, n - 1 - left) // decode_tile + 1 for n in (8192, 5000, 70)) * h // heads
        assert count(flashcore.decode, q[:1, :1].expand(3, 1, h, d), cache, cache, lengths=lengths, window=(left, 0)) == wanted


def test_a_sequence_has_the_same_bits_in_any_batch(flashcore: Any) -> None:
    rng = random.Random(3)
    for d in (64, 128, 256):
        for softcap in (0.0, 20.0):
            h, lengths = 4, [(300, 700), (129, 2000), (1, 900), (400, 400)]
            options = Options(left=200, right=0, softcap=softcap, sinks=torch.randn(h, device="cuda"))
            queries, keys = ([pair[i] for pair in lengths] for i in (0, 1))
            q, k, v = (randn(sum(n), heads, d, dtype=torch.bfloat16) for n, heads in ((queries, h), (keys, 2), (keys, 2)))
            together, lse = flashcore.attention_varlen(
                q, k, v, cumulate(queries), cumulate(keys), return_lse=True, **options.arguments()
            )
            row, key = 0, 0
            for sq, sk in lengths:
                parts = q[None, row : row + sq], k[None, key : key + sk], v[None, key : key + sk]
                for ctas in (0, 1 + rng.randrange(5)):
                    alone, alone_lse = flashcore.attention(*parts, return_lse=True, max_ctas=ctas, **options.arguments())
                    assert torch.equal(alone[0], together[row : row + sq])
                    assert torch.equal(alone_lse[0], lse[:, row : row + sq])
                row, key = row + sq, key + sk
            cache = [randn(5, 3000, 2, d, dtype=torch.bfloat16) for _ in range(2)]
            n = torch.tensor([3000, 1, 777, 0, 2222], dtype=torch.int32, device="cuda")
            queries_of_all = randn(5, 2, h, d, dtype=torch.bfloat16)
            arguments = {**options.arguments(), "deterministic": True, "return_lse": True}
            everything, lse = flashcore.decode(queries_of_all, *cache, lengths=n, **arguments)
            for i in range(5):
                one, one_lse = flashcore.decode(
                    queries_of_all[i : i + 1], *(x[i : i + 1] for x in cache), lengths=n[i : i + 1], **arguments
                )
                assert torch.equal(one[0], everything[i])
                assert torch.equal(one_lse[0], lse[i])


def test_window_sizes_as_tensors_and_the_operators(flashcore: Any) -> None:
    from flashcore import ops

    q = randn(2, 300, 4, 64, dtype=torch.float16)
    options = Options(left=70, right=3, softcap=9.0, sinks=torch.randn(4, device="cuda"))
    right = attend(q[0], q[0], q[0], options)
    size = tuple(torch.tensor(n) for n in (70, 3))
    for _ in range(2):
        out, lse = flashcore.flash_attn_func(q, q, q, window_size=size, softcap=9.0, sinks=options.sinks, return_attn_probs=True)
        assert not compare((out[0], lse[0]), right, torch.float16)
    for _ in range(3):
        out, lse = torch.ops.flashcore.fwd(q, q, q, window_size_left=70, window_size_right=3, softcap=9.0, sinks=options.sinks)
        assert not compare((out[0], lse[0]), right, torch.float16)
    options = replace(options, softcap=0.0, causal=True)
    k = randn(2, 900, 4, 64, dtype=torch.float16)
    n = torch.tensor([900, 500], dtype=torch.int32, device="cuda")
    for queries in (2, 100):
        out, lse = flashcore.flash_attn_with_kvcache(
            q[:, :queries], k, k, cache_seqlens=n, causal=True, window_size=(70, 3), sinks=options.sinks, return_softmax_lse=True
        )
        for i in range(2):
            keys = k[i, : int(n[i])]
            assert not compare((out[i], lse[i]), attend(q[i, :queries], keys, keys, options), torch.float16)
    assert ops is not None


def test_a_window_of_padded_rows_of_a_graph(flashcore: Any) -> None:
    q, k = randn(40, 2, 64, dtype=torch.float16), randn(400, 2, 64, dtype=torch.float16)
    starts_q = torch.tensor([0, 20, 20, 20], dtype=torch.int32, device="cuda")
    starts_k = torch.tensor([0, 400, 400, 400], dtype=torch.int32, device="cuda")
    out = torch.full_like(q, 7.0)
    flashcore.attention_varlen(q, k, k, starts_q, starts_k, out=out, window=(30, 0))
    right, _ = attend(q[:20], k, k, Options(left=30, right=0))
    assert float((out[:20].double() - right).abs().max()) < 2e-3
    assert bool((out[20:] == 7.0).all())


@pytest.mark.parametrize(("left", "right", "causal"), [(60, 0, True), (33, 20, False), (50, -1, False)])
def test_a_window_has_gradients(flashcore: Any, left: int, right: int, causal: bool) -> None:
    options = Options(left=left, right=right, causal=causal)
    tensors = [randn(1, 300, 2, 64, dtype=torch.float16).requires_grad_() for _ in range(3)]
    wanted = [tensor.detach()[0].double().requires_grad_() for tensor in tensors]
    seed = randn(1, 300, 2, 64, dtype=torch.float16)
    flashcore.flash_attn_func(*tensors, window_size=(left, right), causal=causal).backward(seed)
    attend(*wanted, options)[0].backward(seed[0].double())
    for tensor, right_one in zip(tensors, wanted, strict=True):
        assert float((tensor.grad[0].double() - right_one.grad).abs().max()) < 1e-2
    with pytest.raises((RuntimeError, NotImplementedError), match="softcap"):
        flashcore.flash_attn_func(*tensors, softcap=5.0).backward(seed)
