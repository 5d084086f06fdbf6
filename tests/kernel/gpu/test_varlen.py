"""Packed sequences of different lengths on a Hopper GPU: each is independent of its neighbours."""

from __future__ import annotations

import math
from typing import Any

import gpu_subjects
import pytest

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    # PyTorch warns about rows that the subject sets to 0
    pytest.mark.filterwarnings("ignore:Lower right causal bias will produce NaNs"),
]

subject = gpu_subjects.load("attention")
MARK = 77.0
EDGES = [(0, 5), (1, 1), (17, 0), (200, 333), (64, 64), (193, 129), (1, 1000), (300, 3), (0, 0), (130, 2500)]
TINY = [(1 + 7 * i % 40, 13 * i % 50) for i in range(300)]


def check(**params: Any) -> None:
    inputs = subject.inputs({"b": 10, "h": 4, "hkv": 2, "sq": 400, "sk": 3000, "lengths": "edges", "d": 64, **params}, 7)
    gpu_subjects.assert_correct(subject, inputs, gpu_subjects.launch(subject, inputs))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_ragged_batches(d: int, dtype: str, causal: bool) -> None:
    check(d=d, dtype=dtype, causal=causal)
    check(d=d, dtype=dtype, causal=causal, lengths="ragged", b=7, sq=900, sk=900, h=3, hkv=3)
    check(d=d - 24, dtype=dtype, causal=causal, strided=True, max_ctas=2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["large", "rising", "falling", "constant", "onehot"])
def test_adversarial_inputs(kind: str, causal: bool) -> None:
    check(causal=causal, input=kind)
    check(causal=causal, input=kind, d=128, dtype="bf16")


def make_int32(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def make_separate(lengths: list[tuple[int, int]], gap: int, h: int, hkv: int, d: int, dtype: Any) -> tuple[Any, ...]:
    """Make q, k, v with ``gap`` rows of NaN after every sequence, and the four arrays of starts and lengths."""
    torch.manual_seed(3)
    queries, keys = zip(*lengths, strict=True)
    places = [make_int32(0, *(n + gap for n in column)).cumsum(0, dtype=torch.int32) for column in (queries, keys)]
    tensors = []
    for column, place, heads in ((queries, places[0], h), (keys, places[1], hkv), (keys, places[1], hkv)):
        rows = torch.full((int(place[-1]), heads, d), math.nan, device="cuda", dtype=dtype)
        for start, count in zip(place.tolist(), column, strict=False):
            rows[start : start + count].normal_()
        tensors.append(rows)
    return (*tensors, *places, make_int32(*queries), make_int32(*keys))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("d", "dtype"), [(64, torch.float16), (64, torch.bfloat16), (128, torch.bfloat16), (256, torch.float16)])
@pytest.mark.parametrize("lengths", [EDGES, TINY], ids=["edges", "tiny"])
def test_rows_between_sequences_are_neither_read_nor_written(
    flashcore: Any, lengths: list[tuple[int, int]], d: int, dtype: Any, causal: bool
) -> None:
    """Every sequence has the same bits as on its own, and rows between sequences keep their mark."""
    q, k, v, cu_q, cu_k, used_q, used_k = make_separate(lengths, 3, 4, 2, d, dtype)
    out, lse = torch.full_like(q, MARK), torch.full((4, len(q)), MARK, device="cuda")
    flashcore.attention_varlen(q, k, v, cu_q, cu_k, seqused_q=used_q, seqused_k=used_k, out=out, lse=lse, causal=causal)
    rows = torch.ones(len(q), dtype=torch.bool, device="cuda")
    for i, (start, key) in enumerate(zip(cu_q.tolist()[:-1], cu_k.tolist()[:-1], strict=True)):
        (sq, sk), rows_of_sequence = lengths[i], slice(start, start + lengths[i][0])
        rows[rows_of_sequence] = False
        if not sq or i % 7:
            continue
        part = (q[rows_of_sequence], k[key : key + sk], v[key : key + sk], make_int32(0, sq), make_int32(0, sk))
        single, single_lse = flashcore.attention_varlen(*part, return_lse=True, causal=causal)
        assert torch.equal(out[rows_of_sequence], single)
        assert torch.equal(lse[:, rows_of_sequence], single_lse)
    assert bool((out[rows] == MARK).all())
    assert bool((lse[:, rows] == MARK).all())
    assert bool(out.isfinite().all())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_equal_lengths_give_the_bits_of_attention(flashcore: Any, d: int, causal: bool) -> None:
    q, k, v = (torch.randn((5, n, 4, d), device="cuda", dtype=torch.float16) for n in (300, 777, 777))
    expected, expected_lse = flashcore.attention(q, k, v, causal=causal, return_lse=True)
    cu_q, cu_k = (torch.arange(0, 5 * n + 1, n, dtype=torch.int32, device="cuda") for n in (300, 777))
    packed = (tensor.flatten(0, 1) for tensor in (q, k, v))
    out, lse = flashcore.attention_varlen(*packed, cu_q, cu_k, causal=causal, return_lse=True)
    assert torch.equal(out.view_as(expected), expected)
    assert torch.equal(lse.view(4, 5, 300).transpose(0, 1), expected_lse)


@pytest.mark.parametrize("causal", [False, True])
def test_thousands_of_sequences_repeat_bit_by_bit(flashcore: Any, causal: bool) -> None:
    q, k, v = (torch.randn((60_000, 2, 64), device="cuda", dtype=torch.float16) for _ in range(3))
    cu = torch.arange(0, 60_001, 12, dtype=torch.int32, device="cuda")
    first = flashcore.attention_varlen(q, k, v, cu, cu, causal=causal)
    assert torch.equal(
        first.view(5000, 12, 2, 64), flashcore.attention(*(t.view(5000, 12, 2, 64) for t in (q, k, v)), causal=causal)
    )
    for _ in range(20):
        assert torch.equal(flashcore.attention_varlen(q, k, v, cu, cu, causal=causal), first)


GARBAGE = [(-5, 10**9, -7, 3, 499, 2**31 - 1, 0), (0, 500, 0, 500, 0, 500, 100), (600,) * 7, (500, 400, 300, 200, 100, 50, 0)]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_wrong_lengths_stay_within_the_rows(flashcore: Any, garbage: tuple[int, ...]) -> None:
    """The launch gets the middle rows. The rows around them must not change."""
    whole = torch.full((1500, 2, 64), math.nan, device="cuda", dtype=torch.float16)
    whole[500:1000].normal_()
    out = torch.full_like(whole, MARK)
    part, cu = whole[500:1000], make_int32(*garbage)
    flashcore.attention_varlen(part, part, part, cu, cu, out=out[500:1000])
    assert bool(out.isfinite().all())
    assert bool((out[:500] == MARK).all())
    assert bool((out[1000:] == MARK).all())


def test_a_graph_reads_the_lengths_of_its_replay(flashcore: Any) -> None:
    q = torch.randn((500, 2, 64), device="cuda", dtype=torch.float16)
    cu, out, graph = make_int32(0, 100, 500), torch.zeros_like(q), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        flashcore.attention_varlen(q, q, q, cu, cu, out=out)
    for cut in (1, 100, 333):
        cu.copy_(make_int32(0, cut, 500))
        graph.replay()
        expected = torch.cat([flashcore.attention(x[None], x[None], x[None])[0] for x in (q[:cut], q[cut:])])
        assert torch.equal(out, expected)


def test_strides_single_rows_and_no_rows(flashcore: Any) -> None:
    wide = torch.randn((4, 700, 64), device="cuda", dtype=torch.float16).transpose(0, 1)
    cu = make_int32(0, 300, 700)
    packed = wide.contiguous()
    expected = flashcore.attention_varlen(packed, packed, packed, cu, cu)
    assert torch.equal(flashcore.attention_varlen(wide, wide, wide, cu, cu), expected)
    one = torch.randn(64, device="cuda", dtype=torch.float16).as_strided((1, 1, 64), (3, 5, 1))
    assert torch.equal(flashcore.attention_varlen(one, one, one, make_int32(0, 1), make_int32(0, 1)), one)
    none = one[:0]
    assert flashcore.attention_varlen(none, one, one, make_int32(0, 0), make_int32(0, 1)).shape == (0, 1, 64)
    out, lse = flashcore.attention_varlen(
        packed, none.expand(0, 4, 64), none.expand(0, 4, 64), cu, make_int32(0, 0, 0), return_lse=True
    )
    assert bool((out == 0).all())
    assert bool((lse == -math.inf).all())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: {"cu_seqlens_q": a["cu_seqlens_q"].long()}, r"^cu_seqlens_q: must be contiguous torch.int32"),
        (lambda a: {"cu_seqlens_k": a["cu_seqlens_k"][:-1]}, r"^cu_seqlens_k: "),
        (lambda a: {"seqused_k": a["cu_seqlens_k"]}, r"^seqused_k: "),
        (lambda a: {"seqused_q": make_int32(1, 1).cpu()}, r"^seqused_q: must be on the CUDA device"),
        (lambda a: {"q": a["q"][None]}, r"^q: must have 3 dimensions"),
        (lambda a: {"v": a["v"][:100]}, r"^v: \(rows, heads, head_dim\) must be"),
        (lambda a: {"k": a["k"][:, :1].repeat(1, 3, 1), "v": a["v"][:, :1].repeat(1, 3, 1)}, r"^heads:"),
        (lambda a: {"k": a["k"].as_strided(a["k"].shape, (127, 64, 1))}, r"^k: the sequence stride"),
        (lambda a: {"lse": torch.empty((500, 2), device="cuda")}, r"^lse: "),
        (lambda a: {"scale": math.inf}, r"^scale: must be finite"),
    ],
)
def test_errors_name_the_argument(flashcore: Any, change: Any, message: str) -> None:
    q, k, v = (torch.randn((500, 2, 64), device="cuda", dtype=torch.float16) for _ in range(3))
    arguments = {"q": q, "k": k, "v": v, "cu_seqlens_q": make_int32(0, 100, 500), "cu_seqlens_k": make_int32(0, 7, 500)}
    with pytest.raises(ValueError, match=message):
        flashcore.attention_varlen(**{**arguments, **change(arguments)})
