"""PyTorch's operators on a Hopper GPU: schemas, graphs, gradients, replayed launches, threads and captures."""

from __future__ import annotations

import importlib
import itertools
import threading
from typing import Any

import pytest
from operator_cases import SHAPES, draw, make

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def operators(flashcore: Any) -> Any:
    import flashcore.ops  # noqa: F401 - registers the namespace
    import torch

    return torch.ops.flashcore


def test_opcheck_accepts_every_operator(operators: Any) -> None:
    import torch

    check = torch.library.opcheck
    q, k, v = make(SHAPES[1], grad=True)
    check(operators.fwd.default, (q, k, v), {"causal": True})
    starts = torch.tensor([0, 100, 300], dtype=torch.int32, device="cuda")
    packed = [tensor[0].detach().requires_grad_() for tensor in (q, k, v)]
    check(operators.fwd.default, (*packed, starts, starts), {"max_seqlen_q": 200, "max_seqlen_k": 200, "causal": True})
    q, k, v = (tensor.detach() for tensor in (q, k, v))
    out, lse = operators.fwd(q, k, v, causal=True)
    check(operators.bwd.default, (out, q, k, v, out, lse, None, None, None, None, None, True))
    check(operators.fwd_out.default, (torch.empty_like(out), torch.empty_like(lse), q, k, v), {"causal": True})
    lengths = torch.tensor([100, 50], dtype=torch.int32, device="cuda")
    token, new = draw(2, 1, 8, 128), draw(2, 1, 2, 128)
    check(operators.fwd.default, (token, k, v), {"seqused_k": lengths})
    check(operators.fwd_append.default, (token, k, v, new, new), {"seqused_k": lengths, "causal": True})


def calls(flashcore: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Return each function with the arguments that change between two calls."""
    import torch

    q, k, v = make(SHAPES[1])
    starts = torch.tensor([0, 100, 300], dtype=torch.int32, device="cuda")
    lengths = torch.tensor([120, 300], dtype=torch.int32, device="cuda")
    token, pool = draw(2, 1, 8, 128), draw(12, 64, 2, 128)
    table = torch.randperm(10, device="cuda").to(torch.int32).view(2, 5)
    cached = flashcore.flash_attn_with_kvcache
    return {
        "prefill": (lambda q, k, v: flashcore.flash_attn_func(q, k, v, causal=True), (q, k, v)),
        "varlen": (
            lambda q, k, v: flashcore.flash_attn_varlen_func(q, k, v, starts, starts, 200, 200, causal=True), (q[0], k[0], v[0])
        ),
        "decode": (lambda q, k, v: cached(q, k, v, cache_seqlens=lengths, causal=True), (token, k, v)),
        "pages": (lambda q, k, v: cached(q, k, v, cache_seqlens=lengths, page_table=table, causal=True), (token, pool, pool.clone())),
        "chunks": (
            lambda q, k, v: cached(
                q, k, v, cache_seqlens=lengths, page_table=table, cu_seqlens_q=starts, max_seqlen_q=200, causal=True
            ),
            (q[0], pool, pool.clone()),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["prefill", "varlen", "decode", "pages", "chunks"])
def test_a_whole_graph_gives_the_same_bits(flashcore: Any, name: str) -> None:
    import torch

    function, tensors = calls(flashcore)[name]
    with torch.no_grad():
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        for _ in range(3):
            tensors = tuple(tensor + 0.125 for tensor in tensors)
            assert torch.equal(compiled(*tensors), function(*tensors))


def test_an_append_in_a_graph_writes_the_cache(flashcore: Any) -> None:
    import torch

    _, k, v = make(SHAPES[1])
    token, new = draw(2, 1, 8, 128), draw(2, 1, 2, 128)

    def step(k: Any, v: Any, lengths: Any) -> Any:
        return flashcore.flash_attn_with_kvcache(token, k, v, new, new, cache_seqlens=lengths, causal=True)

    lengths = torch.tensor([100, 50], dtype=torch.int32, device="cuda")
    results = []
    for function in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
        caches = k.clone(), v.clone()
        results.append((function(*caches, lengths), *caches))
    assert all(torch.equal(eager, compiled) for eager, compiled in zip(*results, strict=True))
    assert torch.equal(results[0][1][0, 100], new[0, 0])


def test_an_exported_module_gives_the_same_bits(flashcore: Any) -> None:
    import torch

    class Module(torch.nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            return flashcore.flash_attn_func(q, k, v, causal=True)

    tensors = make(SHAPES[1])
    program = torch.export.export(Module(), tensors)
    assert any(str(node.target) == "flashcore.fwd.default" for node in program.graph.nodes)
    assert torch.equal(program.module()(*tensors), Module()(*tensors))


def test_replayed_launches_follow_addresses_shapes_and_options(operators: Any, flashcore: Any) -> None:
    import torch

    with torch.no_grad():
        for round_, (b, s, causal, scale) in itertools.product(
            range(3), itertools.product((1, 3), (64, 190), (False, True), (None, 0.3))
        ):
            q, k, v = (draw(b, s, heads, 128, seed=10 * round_ + i) for i, heads in enumerate((4, 2, 2)))
            expected = flashcore.attention(q, k, v, causal=causal, scale=scale, return_lse=True)
            out, lse = torch.empty_like(q), torch.empty_like(expected[1])
            operators.fwd_out(out, lse, q, k, v, softmax_scale=scale, causal=causal)
            actual = operators.fwd(q, k, v, softmax_scale=scale, causal=causal)
            assert all(map(torch.equal, expected, actual))
            assert all(map(torch.equal, expected, (out, lse)))
            same = flashcore.attention(q, k, k, causal=causal, scale=scale)  # one tensor twice, then two
            assert torch.equal(operators.fwd(q, k, k, softmax_scale=scale, causal=causal)[0], same)


def test_an_operator_names_the_wrong_argument(operators: Any) -> None:
    q, k, v = make(SHAPES[1])
    with pytest.raises(RuntimeError, match=r"^v: "):
        operators.fwd(q, k, v[:, :, :1])
    with pytest.raises(RuntimeError, match=r"^q_descale: "):
        operators.fwd(q, k, v, q_descale=q[0, 0, :, 0].float().contiguous())


def test_a_capture_of_an_operator_replays_with_other_values(operators: Any) -> None:
    import torch

    q, k, v = make(SHAPES[1])
    lengths, token = torch.tensor([100, 50], dtype=torch.int32, device="cuda"), draw(2, 1, 8, 128)
    out, decoded = torch.empty_like(q), torch.empty_like(token)

    def launch() -> None:
        operators.fwd_out(out, None, q, k, v, causal=True)
        operators.fwd_out(decoded, None, token, k, v, seqused_k=lengths)

    for _ in range(2):
        launch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    for step in range(3):
        q.add_(0.25 * step)
        lengths.add_(7)
        graph.replay()
        captured = out.clone(), decoded.clone()
        launch()
        assert all(map(torch.equal, captured, (out, decoded)))


def test_threads_share_operators_and_workspaces(operators: Any) -> None:
    """Eight threads on one stream, with workspaces that grow in between."""
    import torch

    inputs = [
        (draw(b, 1, 8, 128, seed=b), draw(b, 700, 2, 128), draw(b, 700, 2, 128, seed=3)) for b in (1, 2, 5, 9, 17, 33, 40, 60)
    ]
    lengths = [torch.full((len(q),), 700, dtype=torch.int32, device="cuda") for q, _, _ in inputs]
    expected = [operators.fwd(*tensors, seqused_k=used)[0] for tensors, used in zip(inputs, lengths, strict=True)]
    torch.cuda.synchronize()
    wrong: list[int] = []

    def work(first: int) -> None:
        for i in range(first, first + 120):
            j = i % len(inputs)
            if not torch.equal(operators.fwd(*inputs[j], seqused_k=lengths[j])[0], expected[j]):
                wrong.append(j)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("name", ["decode", "pages"])
def test_a_step_of_decode_without_gradients_takes_the_short_way(flashcore: Any, name: str, append: bool) -> None:
    """In eager mode and in a graph. The operator in the profile is the proof, and the other way gives the bits."""
    import torch

    function, (token, k, v) = steps(append)[name]
    results = []
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        caches = k.clone(), v.clone()
        with mode():
            function(token, *caches)
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
                results.append((*function(token, *caches), *caches))
        names = {event.name for event in profile.events()}
        assert ("flashcore::_step" in names) is (mode is not torch.enable_grad), sorted(names)
    assert all(torch.equal(one, other) for result in results[1:] for one, other in zip(results[0], result, strict=True))
    caches, graph = (k.clone(), v.clone()), torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        captured = function(token, *caches)
    for _ in range(2):
        token.add_(0.25)
        graph.replay()
        expected = function(token, k, v)
        assert all(map(torch.equal, (*captured, *caches), (*expected, k, v)))


def steps(append: bool) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Return ``calls`` of decode with their log-sum-exp, as FA3's tests ask for it."""
    import torch
    from flashcore import flash_attn_with_kvcache

    lengths = torch.tensor([120, 290], dtype=torch.int32, device="cuda")
    token, pool, (_, k, v) = draw(2, 1, 8, 128), draw(12, 64, 2, 128), make(SHAPES[1])
    new = draw(2, 1, 2, 128, seed=5) if append else None
    table = torch.randperm(10, device="cuda").to(torch.int32).view(2, 5)
    options = {"k": new, "v": new, "cache_seqlens": lengths, "causal": True, "return_softmax_lse": True}
    return {
        "decode": (lambda q, k, v: flash_attn_with_kvcache(q, k, v, **options), (token, k, v)),
        "pages": (lambda q, k, v: flash_attn_with_kvcache(q, k, v, page_table=table, **options), (token, pool, pool.clone())),
    }


def test_tensors_on_another_device_give_the_same_bits(operators: Any) -> None:
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    for name, (q, k, v), used in (
        ("prefill", make(SHAPES[1]), None),
        ("decode", (draw(2, 1, 8, 128), *make(SHAPES[1])[1:]), torch.tensor([100, 50], dtype=torch.int32, device="cuda")),
    ):
        expected = operators.fwd(q, k, v, seqused_k=used)
        for _ in range(2):  # the second is replayed
            other = operators.fwd(*(t.to("cuda:1") for t in (q, k, v)), seqused_k=None if used is None else used.to("cuda:1"))
            assert all(torch.equal(a, b.to("cuda:0")) for a, b in zip(expected, other, strict=True)), name
    assert torch.cuda.current_device() == 0


def test_flash_attention_3s_operator_gives_the_same_bits(flashcore: Any) -> None:
    import flashcore.fa3  # before the module that it defines
    import torch

    flash_attn_interface = importlib.import_module("flash_attn_interface")

    q, k, v = make(SHAPES[1])
    expected, lse = flashcore.attention(q, k, v, causal=True, return_lse=True)
    for _ in range(2):
        out = torch.empty_like(q)
        results = torch.ops.flash_attn_3.fwd(q, k, v, out=out, is_causal=True)
        assert results[0].data_ptr() == out.data_ptr()
        assert torch.equal(out, expected)
        assert torch.equal(results[1], lse)
    assert torch.equal(torch.ops.flash_attn_3.fwd(q, k, v, window_size_left=299, window_size_right=0)[0], expected)
    assert torch.equal(flash_attn_interface.flash_attn_func(q, k, v, causal=True), expected)
    torch.library.opcheck(torch.ops.flash_attn_3._flash_attn_forward.default, (q, k, v), {"causal": True})
