"""``fwd`` below and above autograd: calls without gradients stay out of Python, and all that PyTorch makes of it sees one operator."""

from __future__ import annotations

import gc
import importlib
import sys
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB, and both C++ files compile in 10 s


def make(operators: SimpleNamespace, *, requires_grad: bool = False) -> list[Any]:
    shape = (2, 8, 4, 64)
    return [operators.torch.randn(shape).to(operators.torch.float16).requires_grad_(requires_grad) for _ in "qkv"]


def find_python(call: Callable[[], Any]) -> set[str]:
    """The package's Python functions that a call enters."""
    seen: set[str] = set()

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and "/flashcore/" in frame.f_code.co_filename:
            seen.add(frame.f_code.co_name)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def list_operators(graph: Any) -> list[str]:
    return [str(node.target) for node in graph.graph.nodes if "flashcore" in str(node.target)]


@pytest.fixture
def backward(operators: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace PyTorch's kernel, which the CPU lacks. A module of PyTorch has to see it before."""
    importlib.import_module("torch.utils.flop_counter")

    def compute(dout: Any, *tensors: Any, **_options: Any) -> Any:
        return tuple(dout * tensor for tensor in tensors[:3])

    monkeypatch.setattr(operators.torch.ops.aten, "_flash_attention_backward", compute)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_replayed_call_without_gradients_enters_no_python(operators: SimpleNamespace, mode: str, requires_grad: bool) -> None:
    q, k, v = make(operators, requires_grad=requires_grad)
    with getattr(operators.torch, mode)():
        operators.ops.fwd(q, k, v)
        assert find_python(lambda: operators.ops.fwd(q, k, v)) == set()
        out, lse = operators.ops.fwd(q, k, v)
    assert (out.requires_grad, lse.requires_grad) == (False, False)
    assert out.flatten()[0] == v.flatten()[0]  # the stand-in copies it
    assert find_python(lambda: operators.ops.fwd(q, k, v))  # the measure can fail


def test_an_input_that_needs_no_gradient_records_none(operators: SimpleNamespace) -> None:
    q, k, v = make(operators)
    out, lse = operators.ops.fwd(q, k, v)
    assert (out.grad_fn, lse.grad_fn) == (None, None)
    assert "_setup_context" not in find_python(lambda: operators.ops.fwd(q, k, v))
    v.requires_grad_()
    out, lse = operators.ops.fwd(q, k, v)
    assert (out.grad_fn is not None, lse.requires_grad) == (True, False)


@pytest.mark.usefixtures("backward")
def test_the_gradient_is_that_of_the_private_operator(operators: SimpleNamespace) -> None:
    torch, tensors = operators.torch, make(operators, requires_grad=True)
    weight = torch.randn(2, 8, 4, 64).half()
    compiled = torch.compile(operators.ops.fwd.default, backend="eager", fullgraph=True)
    for call in (operators.ops._fwd_differentiable, operators.ops.fwd, compiled):
        given = torch.autograd.grad((call(*tensors)[0] * weight).sum(), tensors)
        for gradient, tensor in zip(given, tensors, strict=True):
            torch.testing.assert_close(gradient, weight * tensor, rtol=0, atol=0)


@pytest.mark.usefixtures("backward")
def test_a_checkpoint_that_ends_with_the_operator_is_computed_again(operators: SimpleNamespace) -> None:
    """PyTorch stops the second forward by an exception, which has to keep its type."""
    from torch.utils.checkpoint import checkpoint

    q, k, v = make(operators, requires_grad=True)
    out = checkpoint(lambda *given: operators.ops.fwd(*given)[0], q, k, v, use_reentrant=False)
    out.sum().backward()
    assert (q.grad == q).all()


@pytest.mark.parametrize("records", [False, True])
def test_an_exception_of_a_mode_keeps_its_type_and_is_freed(operators: SimpleNamespace, records: bool) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class OwnError(Exception):
        pass

    class Refuse(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise OwnError("own words")

    tensors = make(operators, requires_grad=records)
    with operators.torch.set_grad_enabled(records):
        with Refuse(), pytest.raises(OwnError, match=r"^own words$") as caught:
            operators.ops.fwd(*tensors)
        assert operators.ops.fwd(*tensors)[0].requires_grad == records
    reference = weakref.ref(caught.value)
    del caught
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("records", [False, True])
def test_a_refused_launch_has_the_same_words_with_and_without_gradients(operators: SimpleNamespace, records: bool) -> None:
    q, k, v = make(operators, requires_grad=records)
    with operators.torch.set_grad_enabled(records):
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"^v: \(batch, sequence, heads, head_dim\) must be"):
                operators.ops.fwd(q, k, v[:, :, :1])
        assert operators.ops.fwd(q, k, v)[0].shape == q.shape


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("kind", ["real", "fake", "symbolic", "functionalize"])
def test_a_trace_has_the_public_operator(operators: SimpleNamespace, kind: str, records: bool) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    def call(*given: Any) -> Any:
        return operators.ops.fwd(*given)[0]

    with operators.torch.set_grad_enabled(records):
        traced = (
            make_fx(operators.torch.func.functionalize(call)) if kind == "functionalize" else make_fx(call, tracing_mode=kind)
        )
        assert list_operators(traced(*make(operators))) == ["flashcore.fwd.default"]


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # PyTorch's own
@pytest.mark.parametrize("records", [False, True])
def test_export_and_compilation_have_the_public_operator(operators: SimpleNamespace, records: bool) -> None:
    from torch._dynamo.backends.common import aot_autograd

    torch, graphs = operators.torch, []

    class Module(torch.nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            return operators.ops.fwd(q, k, v, causal=True)[0]

    def keep(graph: Any, _inputs: Any) -> Any:
        graphs.append(list_operators(graph))
        return graph

    tensors = make(operators)
    torch._dynamo.reset()
    with torch.set_grad_enabled(records):
        torch.compile(Module(), backend=aot_autograd(fw_compiler=keep), fullgraph=True)(*tensors)
        exported = torch.export.export(Module(), tuple(tensors))
        graphs += [list_operators(exported), list_operators(exported.run_decompositions())]
    assert graphs == [["flashcore.fwd.default"]] * 3


@pytest.mark.parametrize("mode", ["no_grad", "enable_grad", "inference_mode"])
def test_fake_and_meta_tensors_and_vmap_have_the_shapes(operators: SimpleNamespace, mode: str) -> None:
    torch = operators.torch
    context: AbstractContextManager[None] = getattr(torch, mode)()
    q, k, v = make(operators)
    with context:
        meta = torch.empty_like(q, device="meta")
        assert operators.ops.fwd(meta, meta, meta)[0].shape == q.shape
        with torch._subclasses.FakeTensorMode() as fakes:
            assert operators.ops.fwd(*map(fakes.from_tensor, (q, k, v)))[1].shape == (2, 4, 8)
        if mode != "inference_mode":
            many = torch.vmap(lambda *given: operators.ops.fwd(*given)[0])(*(torch.stack([x, x]) for x in (q, k, v)))
            assert many.shape == (2, *q.shape)


@pytest.mark.parametrize("records", [False, True])
def test_opcheck_passes_with_and_without_gradients(operators: SimpleNamespace, records: bool) -> None:
    passes = ("test_schema", "test_autograd_registration", "test_faketensor")
    with operators.torch.set_grad_enabled(records):
        tensors = tuple(make(operators, requires_grad=records))
        operators.torch.library.opcheck(operators.ops.fwd.default, tensors, {"causal": True}, test_utils=passes)
