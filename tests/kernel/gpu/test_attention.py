"""FlashCore's attention on a Hopper GPU, compared with the formula in float64."""

from __future__ import annotations

import math
import threading
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


def launch(inputs: dict[str, Any]) -> dict[str, Any]:
    return gpu_subjects.launch(subject, inputs)


def assert_correct(inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    gpu_subjects.assert_correct(subject, inputs, outputs)


def check(seed: int = 7, **params: Any) -> None:
    inputs = subject.inputs({"b": 2, "h": 3, "d": 64, **params}, seed)
    assert_correct(inputs, launch(inputs))


SHAPES = [
    (1, 1), (1, 1000), (17, 17), (63, 65), (64, 64), (113, 203), (128, 127), (799, 3), (1023, 1024), (2048, 2048),
    (192, 128), (193, 129), (385, 640), (5, 4100),
]  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [8, 32, 72, 80, 96, 160, 192, 248])
def test_other_head_dimensions(d: int, causal: bool) -> None:
    check(sq=333, sk=500, d=d, causal=causal, strided=True)
    check(sq=130, sk=70, d=d, causal=causal, dtype="bf16")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize(("sq", "sk"), SHAPES)
def test_shapes(sq: int, sk: int, d: int, dtype: str, causal: bool) -> None:
    check(sq=sq, sk=sk, d=d, dtype=dtype, causal=causal, layout="bhsd" if sq % 2 else "bshd")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_long(d: int, causal: bool) -> None:
    check(b=1, h=2, sq=4224, d=d, causal=causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("kind", ["large", "rising", "falling", "constant", "onehot"])
def test_adversarial_inputs(kind: str, d: int, dtype: str, causal: bool) -> None:
    check(sq=500, sk=700, d=d, dtype=dtype, input=kind, causal=causal)


@pytest.mark.parametrize(("h", "hkv"), [(8, 1), (16, 2), (10, 2), (14, 2), (3, 3)])
@pytest.mark.parametrize("causal", [False, True])
def test_grouped_heads(h: int, hkv: int, causal: bool) -> None:
    check(b=3, h=h, hkv=hkv, sq=257, sk=300, d=128, causal=causal)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_views_with_gaps_of_nan(layout: str, d: int) -> None:
    check(sq=200, sk=333, d=d, layout=layout, strided=True, causal=True)


@pytest.mark.parametrize("d", [64, 128, 256])
def test_offsets_past_two_to_the_31(d: int) -> None:
    check(b=2, h=2, sq=200, sk=150, d=d, offset=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_few_persistent_blocks(d: int, causal: bool) -> None:
    check(sq=700, sk=1000, d=d, causal=causal, max_ctas=2)


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_no_keys_and_no_queries(d: int, causal: bool) -> None:
    check(sq=100, sk=0, d=d, causal=causal)
    check(sq=0, sk=100, d=d, causal=causal)


def _tensors(sq: int = 300, sk: int = 300, d: int = 64, dtype: Any = torch.float16, h: int = 2) -> tuple[Any, Any, Any]:
    torch.manual_seed(3)
    return tuple(torch.randn((2, n, h, d), device="cuda", dtype=dtype) for n in (sq, sk, sk))  # type: ignore[return-value]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_bitwise_repeatable(flashcore: Any, d: int, causal: bool) -> None:
    q, k, v = _tensors(1000, 1111, d)
    first, first_lse = flashcore.attention(q, k, v, causal=causal, return_lse=True)
    for _ in range(100):
        out, lse = flashcore.attention(q, k, v, causal=causal, return_lse=True)
        assert torch.equal(out, first)
        assert torch.equal(lse, first_lse)


@pytest.mark.parametrize("d", [64, 128, 256])
def test_rows_past_the_end_are_neither_read_nor_written(flashcore: Any, d: int) -> None:
    """The tensors are the first rows of longer ones. The other rows are NaN (inputs) or a mark (output)."""
    q, k, v = (torch.full((2, 600, 2, d), math.nan, device="cuda", dtype=torch.float16) for _ in range(3))
    for tensor, rows in ((q, 201), (k, 130), (v, 130)):
        tensor[:, :rows].normal_()
    out = torch.full_like(q, 77.0)
    flashcore.attention(q[:, :201], k[:, :130], v[:, :130], out=out[:, :201])
    expected = flashcore.attention(*(t[:, :n].contiguous() for t, n in ((q, 201), (k, 130), (v, 130))))
    assert torch.equal(out[:, :201], expected)
    assert bool(expected.isfinite().all())
    assert bool((out[:, 201:] == 77.0).all())


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_masked_keys_do_not_change_the_output(flashcore: Any, bad: float) -> None:
    q, k, v = _tensors()
    clean = flashcore.attention(q, k, v, causal=True)
    k[:, 200:] = bad
    assert torch.equal(flashcore.attention(q, k, v, causal=True)[:, :200], clean[:, :200])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [0.0, -0.125, -3.0, 1e-30, 1e-42, 7.5])
def test_any_scale(flashcore: Any, scale: float, causal: bool) -> None:
    q, k, v = _tensors(200, 333)
    out, lse = flashcore.attention(q, k, v, scale=scale, causal=causal, return_lse=True)
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k.double()) * scale
    if causal:
        hidden = torch.ones(200, 333, device="cuda", dtype=torch.bool).triu(1 + 333 - 200)
        scores = scores.masked_fill(hidden, -math.inf)
    exact = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v.double())
    assert (out.double() - exact).abs().max().item() < 4e-3
    expected = scores.logsumexp(-1)  # PyTorch has no log-sum-exp for these scales. At others its error is about 1e-6.
    assert bool(((lse.double() - expected).abs() <= 1e-5 + 4e-6 * expected.abs()).all())


def test_a_scale_in_a_tensor_may_change_in_place(flashcore: Any) -> None:
    q, k, v = _tensors(200, 333)
    scale = torch.tensor(0.5)
    for value in (0.5, 0.25):
        scale.fill_(value)
        assert torch.equal(flashcore.attention(q, k, v, scale=scale), flashcore.attention(q, k, v, scale=value))


@pytest.mark.parametrize("scale", [1e30, -1e30, 3e38])
def test_a_huge_scale_selects_the_best_key(flashcore: Any, scale: float) -> None:
    q, k, v = _tensors(64, 200)
    scores = torch.einsum("bqhd,bkhd->bhqk", q.double(), k.double()) * math.copysign(1.0, scale)
    best = scores.argmax(-1)
    expected = torch.gather(v.permute(0, 2, 1, 3), 2, best[..., None].expand(-1, -1, -1, 64)).permute(0, 2, 1, 3)
    assert torch.equal(flashcore.attention(q, k, v, scale=scale), expected)


def test_a_tiny_first_tile_followed_by_two_to_the_127(flashcore: Any) -> None:
    for where in (0, 150, 299):
        q, k, v = _tensors(dtype=torch.bfloat16)
        q.fill_(0.0)
        k.mul_(1e-20)
        q[..., 0] = 2.0**63
        k[:, where, :, 0] = 2.0**63
        out = flashcore.attention(q, k, v)
        assert torch.equal(out, v[:, where : where + 1].expand_as(out))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("growth", [7.5, 8.5, 14.5, 15.5, 40.0, 300.0, 3e5])
@pytest.mark.parametrize("where", [0, 130, 500, 895])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_a_key_with_a_much_larger_score(d: int, where: int, growth: float, dtype: str, causal: bool) -> None:
    """The loop starts at the last key. At 0 to 895 of 1000 the key whose exponential is 2^growth is in an unmasked block."""
    inputs = subject.inputs({"b": 1, "h": 2, "d": d, "sq": 1000, "sk": 1000, "dtype": dtype, "causal": causal}, 5)
    q, k = (inputs[name] if inputs[name].shape[1] == 1000 else inputs[name].transpose(1, 2) for name in ("q", "k"))
    weight = math.sqrt(growth * math.log(2.0) * math.sqrt(d))
    q[..., 0] = weight
    k[..., 0] = 0.0
    k[:, where, :, 0] = weight
    assert_correct(inputs, launch(inputs))


@pytest.mark.parametrize("where", [0, 500, 999])
def test_nan_in_a_key_reaches_the_output(flashcore: Any, where: int) -> None:
    q, k, v = _tensors(1000, 1000)
    k[:, where] = math.nan
    assert bool(flashcore.attention(q, k, v).isnan().all())


def test_expanded_and_size_one_dimensions(flashcore: Any) -> None:
    q, k, v = _tensors(130, 140)
    wide_k, wide_v = (t[:1, :, :1].expand(2, 140, 2, 64) for t in (k, v))
    expected = flashcore.attention(q, wide_k.contiguous(), wide_v.contiguous())
    assert torch.equal(flashcore.attention(q, wide_k, wide_v), expected)
    one = torch.randn(1, 64, device="cuda", dtype=torch.float16)
    odd = one.as_strided((1, 1, 1, 64), (3, 5, 7, 1))
    assert torch.equal(flashcore.attention(odd, odd, odd), odd)


def test_graph_capture_side_stream_and_two_streams(flashcore: Any) -> None:
    q, k, v = _tensors(500, 500)
    expected = flashcore.attention(q, k, v)
    out = torch.zeros_like(q)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        flashcore.attention(q, k, v, out=out)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)
    streams = [torch.cuda.Stream() for _ in range(2)]
    results = []
    for stream in streams * 5:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            results.append(flashcore.attention(q, k, v))
    torch.cuda.synchronize()
    assert all(torch.equal(result, expected) for result in results)


def test_a_new_thread_needs_no_current_context(flashcore: Any) -> None:
    """The thread calls nothing of PyTorch that makes a context current: all tensors exist."""
    q, k, v = _tensors(500, 500)
    expected, lse = flashcore.attention(q, k, v, return_lse=True)
    out, failures = torch.zeros_like(q), []

    def launch_once() -> None:
        try:
            flashcore.attention(q, k, v, out=out, lse=lse)
        except Exception as error:  # noqa: BLE001 - the main thread reports it
            failures.append(error)

    thread = threading.Thread(target=launch_once)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert not failures
    assert torch.equal(out, expected)


def _misaligned(t: Any) -> Any:
    return torch.empty(t.numel() + 1, dtype=t.dtype, device="cuda")[1:].view(t.shape)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v: {"q": _misaligned(q)}, r"^q: must be aligned"),
        (lambda q, k, v: {"k": k.float()}, r"^k: must be float16"),
        (lambda q, k, v: {"v": v.cpu()}, r"^v: must be on the CUDA device"),
        (lambda q, k, v: {"k": k[:, :100]}, r"^v: \(batch, sequence, heads, head_dim\) must be"),
        (lambda q, k, v: {"k": k[:, :, :1].repeat(1, 1, 3, 1), "v": v[:, :, :1].repeat(1, 1, 3, 1)}, r"^heads:"),
        (lambda q, k, v: {"q": q.transpose(1, 3)}, r"^[qk]: "),
        (lambda q, k, v: {"k": k.as_strided(k.shape, (k.stride(0), 127, 64, 1))}, r"^k: the sequence stride"),
        (lambda q, k, v: {"scale": math.nan}, r"^scale: must be finite"),
        (lambda q, k, v: {"layout": "sbhd"}, r"^layout: "),
        (lambda q, k, v: {"q": q[0]}, r"^q: must have 4 dimensions"),
        (lambda q, k, v: {"q": q[..., :36].contiguous(), "k": k[..., :36].contiguous(), "v": v[..., :36].contiguous()},
         r"^head_dim: must be a multiple of 8"),
        (lambda q, k, v: {"q": q.clone().requires_grad_()}, r"gradient"),
        (lambda q, k, v: {"out": torch.empty_like(q[:, :5])}, r"^out: "),
        (lambda q, k, v: {"out": torch.empty_like(q)[:1].expand_as(q)}, r"^out: elements share memory"),
        (lambda q, k, v: {"lse": torch.empty(3, device="cuda")}, r"^lse: "),
    ],
)  # fmt: skip
def test_errors_name_the_argument(flashcore: Any, change: Any, message: str) -> None:
    q, k, v = _tensors()
    arguments = {"q": q, "k": k, "v": v, **change(q, k, v)}
    with pytest.raises(ValueError, match=message):
        flashcore.attention(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments)
    torch.cuda.synchronize()
