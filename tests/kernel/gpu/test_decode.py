"""FlashCore's decode on a Hopper GPU, compared with the formula in float64. Unused rows of every cache are NaN."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import gpu_subjects
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

subject = gpu_subjects.load("decode")
D = (64, 128, 256)
DTYPES = ("fp16", "bf16")


def make_inputs(seed: int = 7, **params: Any) -> dict[str, Any]:
    return dict(subject.inputs({"b": 6, "h": 8, "hkv": 2, "sk": 700, "d": 128, "lengths": "edges", **params}, seed))


def check(**params: Any) -> None:
    inputs = make_inputs(**params)
    gpu_subjects.assert_correct(subject, inputs, gpu_subjects.launch(subject, inputs))


decode = functools.partial(gpu_subjects.decode, subject)


def same(first: tuple[Any, Any], second: tuple[Any, Any]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("page", [0, 16, 64, 128, 256])
def test_lengths_next_to_page_boundaries(page: int, d: int, dtype: str) -> None:
    check(b=17, page=page, d=d, dtype=dtype)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("sq", range(1, 17))
def test_new_queries(sq: int, d: int, causal: bool) -> None:
    check(sq=sq, d=d, causal=causal, page=(0, 64)[sq % 2], dtype=DTYPES[sq // 2 % 2])


@pytest.mark.parametrize(("h", "hkv"), [(3, 3), (5, 1), (10, 2), (7, 1), (14, 2), (16, 1), (64, 1), (64, 8)])
@pytest.mark.parametrize(("sq", "page"), [(1, 0), (4, 16), (16, 64)])
def test_groups_of_query_heads(h: int, hkv: int, sq: int, page: int) -> None:
    check(h=h, hkv=hkv, sq=sq, page=page)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("page", [0, 16, 64, 256])
@pytest.mark.parametrize("new", [1, 5, 33])
def test_append_writes_only_its_rows(new: int, page: int, d: int, dtype: str) -> None:
    check(b=17, sq=min(new, 16), new=new, page=page, d=d, dtype=dtype)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("splits", [1, 2, 7, 64, 1000])
def test_forced_splits(splits: int, d: int, deterministic: bool) -> None:
    check(sk=5000, lengths="ragged", splits=splits, d=d, deterministic=deterministic, page=(0, 16)[splits % 2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", D)
@pytest.mark.parametrize("kind", ["large", "rising", "falling", "constant"])
def test_adversarial_inputs(kind: str, d: int, dtype: str) -> None:
    check(b=2, sq=2, sk=9000, lengths="full", d=d, dtype=dtype, input=kind)


@pytest.mark.parametrize("d", D)
def test_ragged_batches_and_long_sequences(d: int) -> None:
    check(b=32, sk=8192, lengths="ragged", d=d, page=64)
    check(b=1, sk=100_003, lengths="full", d=d)


@pytest.mark.parametrize("max_ctas", [1, 2, 7])
def test_few_blocks(max_ctas: int) -> None:
    check(b=5, sk=3000, lengths="ragged", max_ctas=max_ctas, page=64)


@pytest.mark.parametrize("page", [0, 64])
def test_deterministic_bits_do_not_depend_on_other_sequences(page: int) -> None:
    """This holds in deterministic mode. Every mode repeats its bits."""
    batch = make_inputs(b=33, sk=6000, lengths="ragged", page=page, deterministic=True)
    out, lse = decode(batch)
    for chosen in ([5], [5, 9], list(range(4, 20)), [5] * 64):
        chosen_inputs = {**batch, "q": batch["q"][chosen], "lengths": batch["lengths"][chosen]}
        chosen_inputs |= (
            {"page_table": batch["page_table"][chosen]} if page else {name: batch[name][chosen] for name in ("k", "v")}
        )
        where = chosen.index(5)
        found = decode(chosen_inputs)
        assert torch.equal(found[0][where], out[5])
        assert torch.equal(found[1][where], lse[5])
    for deterministic in (False, True):
        first = decode(batch, deterministic=deterministic)
        assert all(same(first, decode(batch, deterministic=deterministic)) for _ in range(50))


@pytest.mark.parametrize("page", [16, 64, 256])
def test_pages_reversed_shared_and_moved_give_the_same_bits(page: int) -> None:
    inputs = make_inputs(b=5, sk=2000, lengths="ragged", page=page)
    first = decode(inputs)
    pages = len(inputs["k"])
    backwards = {name: inputs[name].flip(0).contiguous() for name in ("k", "v")}
    assert same(first, decode(inputs, **backwards, page_table=pages - 1 - inputs["page_table"]))
    wide = torch.full((5, 2 * inputs["page_table"].shape[1]), -7, dtype=torch.int32, device="cuda")
    wide[:, : inputs["page_table"].shape[1]] = inputs["page_table"]
    gpu_subjects.assert_correct(
        subject, {**inputs, "page_table": wide}, dict(zip(("out", "lse"), decode(inputs, page_table=wide), strict=True))
    )
    longest = int(inputs["lengths"].argmax())
    shared = inputs["page_table"][longest].repeat(5, 1)
    both = {**inputs, "page_table": shared}
    gpu_subjects.assert_correct(subject, both, dict(zip(("out", "lse"), decode(both), strict=True)))


def test_caches_in_any_strides(flashcore: Any) -> None:
    """Heads before positions, queries inside a fused projection, and gaps of NaN."""
    inputs = make_inputs(b=4, sk=300)
    first = decode(inputs)
    views = {name: inputs[name].transpose(1, 2).contiguous().transpose(1, 2) for name in ("k", "v")}
    fused = torch.full((4, 1, 3, 8, 136), math.nan, dtype=torch.float16, device="cuda")
    fused[:, :, 1, :, :128] = inputs["q"]
    out = torch.full_like(fused, 7.0)[:, :, 2, :, :128]
    views["q"] = fused[:, :, 1, :, :128]
    assert same(first, decode({**inputs, **views}, out=out))
    assert torch.equal(out, first[0])


def test_pages_past_two_to_the_31_elements() -> None:
    inputs = make_inputs(b=2, hkv=8, page=256, sk=600)
    far = 2**31 // (256 * 8 * 128) + 5
    first = decode(inputs)
    pools = {}
    for name in ("k", "v"):
        pools[name] = torch.full((far + len(inputs[name]), *inputs[name].shape[1:]), math.nan, dtype=torch.float16, device="cuda")
        pools[name][far:] = inputs[name]
    assert same(first, decode({**inputs, **pools}, page_table=inputs["page_table"] + far))


def test_all_keys_when_no_length_is_given() -> None:
    inputs = make_inputs(b=3, sk=500, lengths="full")
    first = decode(inputs)
    assert same(first, decode(inputs, lengths=None))
    assert same(first, decode(inputs, lengths=500))
    room = {name: torch.cat([inputs[name], torch.full_like(inputs[name], math.nan)], dim=1) for name in ("k", "v")}
    assert same(first, decode({**inputs, **room}, lengths=500))


def test_nothing_to_do() -> None:
    out, lse = decode(make_inputs(b=3, sk=0, lengths="full"))
    assert float(out.abs().max()) == 0
    assert bool((lse == -math.inf).all())


def test_a_captured_launch_reads_the_lengths_of_its_replay() -> None:
    inputs = make_inputs(b=4, sk=3000, lengths="full", page=64)
    lengths = [inputs["lengths"] - step for step in (0, 1, 700)]
    expected = [decode(inputs, lengths=step) for step in lengths]
    captured_lengths, out, lse = lengths[0].clone(), torch.empty_like(expected[0][0]), torch.empty_like(expected[0][1])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):  # they share one workspace
            decode(inputs, lengths=captured_lengths, out=out, lse=lse)
    for step, results in [*zip(lengths, expected, strict=True)] * 3:
        captured_lengths.copy_(step)
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(out, results[0], rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(lse, results[1], rtol=1e-5, atol=1e-5)


def test_two_streams_and_a_graph_at_once() -> None:
    inputs = make_inputs(b=8, sk=9000, lengths="ragged", page=16)
    expected = decode(inputs)
    graph, captured = torch.cuda.CUDAGraph(), tuple(torch.empty_like(tensor) for tensor in expected)
    with torch.cuda.graph(graph):
        decode(inputs, out=captured[0], lse=captured[1])
    streams, results = [torch.cuda.Stream() for _ in range(3)], []
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    for stream in streams * 10:
        with torch.cuda.stream(stream):
            if stream is streams[2]:
                graph.replay()
            else:
                results.append(decode(inputs))
    torch.cuda.synchronize()
    assert all(same(expected, found) for found in [*results, captured])


@pytest.mark.parametrize("where", ["cuda:1"])
def test_a_device_that_is_not_the_current_one(where: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU here")
    inputs = make_inputs(b=3, page=16)
    there = {name: value.to(where) if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}
    assert same(decode(inputs), tuple(tensor.cuda(0) for tensor in decode(there)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": math.nan}, r"^scale: must be finite"),
        ({"splits": -1}, r"^splits: "),
        ({"max_ctas": -1}, r"^max_ctas: "),
    ],
)
def test_errors_name_the_argument(change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(make_inputs(), **change)


@pytest.mark.parametrize("scale", [0.0, -0.125, 7.5])
def test_any_scale(scale: float) -> None:
    inputs = make_inputs(b=2, sk=900, lengths="full")
    out, lse = decode(inputs, scale=scale)
    q, k, v = (inputs[name].double() for name in ("q", "k", "v"))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k.repeat_interleave(4, dim=2)) * scale
    exact = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v.repeat_interleave(4, dim=2))
    assert float((out.double() - exact).abs().max()) < 4e-3
    assert float((lse.double() - scores.logsumexp(-1)).abs().max()) < 1e-4


def test_many_shapes_share_a_workspace() -> None:
    rows = [
        make_inputs(b=b, sk=sk, d=d, lengths="ragged", page=page)
        for b, sk, d, page in itertools.product((1, 40), (300, 5000), (64, 256), (0, 64))
    ]
    first = [decode(row) for row in rows]
    for row, expected in [*zip(rows, first, strict=True)][::-1] * 2:
        assert same(expected, decode(row))
