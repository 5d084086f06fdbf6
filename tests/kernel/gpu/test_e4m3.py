"""Attention in E4M3 on a Hopper GPU, against float64 of the same E4M3 numbers and factors. Wide logits come first."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.gpu
D = 128


@pytest.fixture(params=[64, 128, 256], autouse=True)
def head_dim(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "D", request.param)


def draw(*shape: int, seed: int = 0, factor: float = 1.0) -> Any:
    import torch

    numbers = torch.randn(shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda") * factor
    return numbers.to(torch.float8_e4m3fn)


def attend(tensors: tuple[Any, Any, Any], *, causal: bool, scale: float, factors: Any = (None,) * 3) -> tuple[Any, Any]:
    import torch

    q, k, v = (x.double() for x in tensors)
    group = q.shape[2] // k.shape[2]
    q_factor, k_factor, v_factor = (
        torch.ones(q.shape[0], q.shape[2], device="cuda").double() if f is None else f.double().repeat_interleave(group, 1)
        for f in factors
    )
    k, v = (x.repeat_interleave(group, 2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * (scale * q_factor * k_factor)[:, :, None, None]
    if causal:
        rows, keys = scores.shape[-2:]
        hidden = torch.arange(keys, device="cuda") > torch.arange(rows, device="cuda")[:, None] + keys - rows
        scores = scores.masked_fill(hidden, -math.inf)
    p = torch.softmax(scores, -1).nan_to_num(0)
    return torch.einsum("bhqk,bkhd->bqhd", p, v) * v_factor[:, None, :, None], torch.logsumexp(scores, -1)


def check(flashcore: Any, tensors: tuple[Any, Any, Any], *, limit: float = 0.05, **options: Any) -> None:
    import torch

    factors = options.pop("factors", (None,) * 3)
    causal, scale = options.get("causal", False), options.get("scale") or 1 / math.sqrt(D)
    names = dict(zip(("q_scale", "k_scale", "v_scale"), factors, strict=True))
    out, lse = flashcore.attention_e4m3(*tensors, return_lse=True, **names, **options)
    expected, sums = attend(tensors, causal=causal, scale=scale, factors=factors)
    error = (out.double() - expected).square().sum() / expected.square().sum().clamp(min=1e-30)
    assert error.sqrt() <= limit
    torch.testing.assert_close(lse.double(), sums, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [1.0, 4.0, 16.0, 40.0])
@pytest.mark.parametrize("keys", [128, 1000, 2048])
def test_wide_logits_do_not_saturate(flashcore: Any, keys: int, width: float, *, causal: bool) -> None:
    tensors = (draw(1, keys, 2, D, factor=width), draw(1, keys, 2, D, seed=1), draw(1, keys, 2, D, seed=2))
    check(flashcore, tensors, causal=causal)


@pytest.mark.parametrize("rise", [0.5, 1.7, 2.0, 7.9, 8.0, 8.9])
@pytest.mark.parametrize("keys", [1800, 1920, 2048])
def test_scores_that_rise_from_tile_to_tile(flashcore: Any, rise: float, keys: int) -> None:
    """The loop runs from the last key to the first. Eight columns of E4M3 hold the level of a tile."""
    import torch

    left = (torch.arange(keys, 0, -1, device="cuda") // 128).float() * rise
    q, k = torch.zeros(1, 256, 1, D, device="cuda"), torch.zeros(1, keys, 1, D, device="cuda")
    q[..., :8], q[..., 8:], k[..., 8:] = 1.0, draw(1, 256, 1, D - 8).float() * 0.05, draw(1, keys, 1, D - 8, seed=1).float() * 0.2
    for column in range(8):
        k[0, :, 0, column] = (left / (8 - column)).to(torch.float8_e4m3fn).float()
        left = left - k[0, :, 0, column]
    tensors = (q.to(torch.float8_e4m3fn), k.to(torch.float8_e4m3fn), draw(1, keys, 1, D, seed=2))
    check(flashcore, tensors, scale=math.log(2))


@pytest.mark.parametrize("keys", [1024, 8192, 32768])
def test_constant_values_stay_accurate(flashcore: Any, keys: int) -> None:
    """One level of accumulation is wrong by 0.016, 0.149 and 0.399."""
    import torch

    values = (1 + 0.05 * draw(1, keys, 1, D, seed=2).float()).to(torch.float8_e4m3fn)
    check(flashcore, (draw(1, 128, 1, D), draw(1, keys, 1, D, seed=1), values), limit=0.02)


@pytest.mark.parametrize("key", [0, 5, 127, 128, 2047])
def test_one_key_dominates(flashcore: Any, key: int) -> None:
    import torch

    q, k = draw(1, 128, 1, D), draw(1, 2048, 1, D, seed=1).float() * 0.3
    k[0, key, 0] = q[0, 3, 0].float() * 2
    check(flashcore, (q, k.to(torch.float8_e4m3fn), draw(1, 2048, 1, D, seed=2)))


def test_equal_scores(flashcore: Any) -> None:
    import torch

    q, k = (torch.full((1, n, 1, D), 0.5, device="cuda").to(torch.float8_e4m3fn) for n in (256, 4096))
    check(flashcore, (q, k, draw(1, 4096, 1, D, seed=2)), limit=0.01)


@pytest.mark.parametrize("transposed", [False, True])
def test_each_query_gets_the_values_of_its_key(flashcore: Any, *, transposed: bool) -> None:
    """A wrong order of keys or columns shows in every element."""
    import torch

    q = k = (torch.eye(D, device="cuda") * 16).to(torch.float8_e4m3fn).view(1, D, 1, D)
    v = draw(1, D, 1, D)
    values = flashcore.transpose_values(v) if transposed else v
    out = flashcore.attention_e4m3(q, k, values, scale=1.0, transposed=transposed)
    assert torch.equal(out, v.bfloat16())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_values_are_rounded_as_torch_rounds(flashcore: Any, dtype: str) -> None:
    import torch

    v, scale = draw(2, 300, 3, D).float().to(getattr(torch, dtype)) * 3, torch.rand(2, 3, device="cuda") + 0.1
    rounded = (v.float() / scale[:, None, :, None]).clamp(-448, 448).to(torch.float8_e4m3fn)
    ours, theirs = (x.view(torch.uint8) for x in (flashcore.transpose_values(v, scale), flashcore.transpose_values(rounded)))
    assert torch.equal(ours, theirs)
    assert ours.shape == (2, 3, D, 384)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sign", [1.0, -1.0, 0.0])
def test_factors_of_any_strides(flashcore: Any, sign: float, *, causal: bool) -> None:
    import torch

    tensors = (draw(2, 200, 8, D), draw(2, 300, 2, D, seed=1), draw(2, 300, 2, D, seed=2))
    full = torch.rand(2, 2, device="cuda") + 0.5
    check(flashcore, tensors, causal=causal, factors=(full * sign, full.T.contiguous().T, full[:1, :1].expand(2, 2)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("keys", [0, 1, 63, 64, 127, 129, 257, 640, 777])
@pytest.mark.parametrize("queries", [1, 64, 65, 129, 300])
def test_shapes(flashcore: Any, queries: int, keys: int, *, causal: bool) -> None:
    """Also strided tensors: queries, keys and values are parts of one."""
    import torch

    rows = draw(2, max(queries, keys, 1), 8, D)
    tensors = (rows[:, :queries, :4], rows[:, :keys, 4:6], rows[:, :keys, 6:])
    for ctas in (0, 3):
        check(flashcore, tensors, causal=causal, max_ctas=ctas)
    if not keys:
        assert torch.equal(flashcore.attention_e4m3(*tensors), torch.zeros(2, queries, 4, D, device="cuda").bfloat16())


LENGTHS = ((0, 5), (1, 1), (5, 64), (64, 0), (129, 300), (300, 129), (0, 0), (65, 777), (1000, 1100))


def count_rows(lengths: Any) -> tuple[Any, Any]:
    import torch

    starts = torch.tensor([(0, 0), *lengths], device="cuda").cumsum(0).to(torch.int32).T.contiguous()
    return starts[0].clone(), starts[1].clone()


def check_packed(
    flashcore: Any, lengths: Any, *, heads: tuple[int, int] = (8, 2), gap: int = 0, used: Any = None, factors: Any = (None,) * 3, **options: Any
) -> None:  # fmt: skip
    """Compare each sequence alone. ``gap`` rows before, behind and after the used keys of a sequence are NaN, and keep their output."""
    import torch

    starts = tuple(start + gap for start in count_rows(lengths))
    rows = [int(start[-1]) + gap for start in starts]
    tensors = [draw(rows[i > 0], heads[i > 0], D, seed=i) for i in range(3)]
    counts = [(sq, sk if used is None else min(sk, used[i])) for i, (sq, sk) in enumerate(lengths)]
    for tensor, which in zip(tensors, (0, 1, 1), strict=True):
        kept = torch.zeros(len(tensor), dtype=torch.bool, device="cuda")
        for start, count in zip(starts[which].tolist(), counts, strict=False):
            kept[start : start + count[which]] = True
        tensor.view(torch.uint8)[~kept] = 0x7F
    out = torch.full((rows[0], heads[0], D), 7.0, device="cuda", dtype=torch.bfloat16)
    lse = torch.full((heads[0], rows[0]), 7.0, device="cuda")
    lengths_used = None if used is None else torch.tensor([sk for _, sk in counts], dtype=torch.int32, device="cuda")
    scales = dict(zip(("q_scale", "k_scale", "v_scale"), factors, strict=True))
    flashcore.attention_e4m3_varlen(*tensors, *starts, seqused_k=lengths_used, out=out, lse=lse, **scales, **options)
    written = torch.zeros(rows[0], dtype=torch.bool, device="cuda")
    for i, (row, key, (sq, sk)) in enumerate(zip(starts[0].tolist(), starts[1].tolist(), counts, strict=False)):
        q, k, v = tensors[0][None, row : row + sq], tensors[1][None, key : key + sk], tensors[2][None, key : key + sk]
        own = tuple(None if f is None else f[i : i + 1] for f in factors)
        expected, sums = attend((q, k, v), causal=options.get("causal", False), scale=1 / math.sqrt(D), factors=own)
        error = (out[row : row + sq].double() - expected[0]).square().sum() / expected.square().sum().clamp(min=1e-30)
        assert error.sqrt() <= 0.05
        torch.testing.assert_close(lse[:, row : row + sq].double(), sums[0], rtol=2e-3, atol=2e-3)
        written[row : row + sq] = True
    assert (out[~written] == 7).all()
    assert (lse[:, ~written] == 7).all()


@pytest.mark.parametrize("ctas", [0, 3])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [(8, 8), (8, 2), (3, 1)])
def test_packed_sequences(flashcore: Any, heads: tuple[int, int], ctas: int, *, causal: bool) -> None:
    check_packed(flashcore, LENGTHS, heads=heads, causal=causal, max_ctas=ctas)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sign", [1.0, -1.0, 0.0])
def test_factors_of_packed_sequences(flashcore: Any, sign: float, *, causal: bool) -> None:
    import torch

    full = torch.rand(len(LENGTHS), 2, device="cuda") + 0.5
    check_packed(flashcore, LENGTHS, causal=causal, factors=(full * sign, full.T.contiguous().T, full[:, :1].expand(-1, 2)))


@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences_touch_no_other_rows(flashcore: Any, *, causal: bool) -> None:
    check_packed(flashcore, LENGTHS, gap=5, used=(0, 1, 40, 0, 129, 64, 0, 700, 1), causal=causal)


@pytest.mark.parametrize("count", [33, 1100])
def test_many_packed_sequences(flashcore: Any, count: int) -> None:
    check_packed(flashcore, [(1 + i % 3, 5 * i % 300) for i in range(count)], heads=(2, 1), causal=True)


def test_packed_sequences_without_keys(flashcore: Any) -> None:
    check_packed(flashcore, [(3, 0), (70, 0)], heads=(2, 1))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("sq", "sk"), [(300, 300), (128, 777), (500, 129)])
def test_packed_sequences_give_the_same_bits(flashcore: Any, sq: int, sk: int, *, causal: bool) -> None:
    """As equal lengths with a batch dimension."""
    import torch

    q, k, v = draw(3, sq, 4, D), draw(3, sk, 2, D, seed=1), draw(3, sk, 2, D, seed=2)
    scale = torch.rand(3, 2, device="cuda") + 0.5
    options = {"causal": causal, "q_scale": scale, "v_scale": scale, "return_lse": True}
    expected, sums = flashcore.attention_e4m3(q, k, v, **options)
    packed = (x.flatten(0, 1) for x in (q, k, v))
    out, lse = flashcore.attention_e4m3_varlen(*packed, *count_rows([(sq, sk)] * 3), **options)
    assert torch.equal(out.view_as(expected), expected)
    assert torch.equal(lse.view(4, 3, sq).transpose(0, 1), sums)


def test_a_graph_reads_the_packed_lengths_of_its_replay(flashcore: Any) -> None:
    import torch

    q, k, v = draw(500, 4, D), draw(700, 2, D, seed=1), draw(700, 2, D, seed=2)
    starts_q, starts_k = count_rows([(100, 300), (400, 400)])
    out, graph = torch.zeros(q.shape, device="cuda", dtype=torch.bfloat16), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        flashcore.flash_attn_varlen_func(q, k, v, starts_q, starts_k, 500, 700, causal=True)
        flashcore.attention_e4m3_varlen(q, k, v, starts_q, starts_k, causal=True, out=out)
    for lengths in ([(100, 300), (400, 400)], [(499, 1), (1, 699)], [(0, 700), (500, 0)]):
        for old, new in zip((starts_q, starts_k), count_rows(lengths), strict=True):
            old.copy_(new)
        graph.replay()
        expected = flashcore.flash_attn_varlen_func(q, k, v, *count_rows(lengths), 500, 700, causal=True)
        assert torch.equal(out, expected)
