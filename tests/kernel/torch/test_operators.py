"""Operators with a real dispatcher: launches are replayed by C++ with the right addresses, and errors keep their words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB, and both C++ files compile in 10 s

KERNEL = Path(__file__).parents[3] / "kernel"
UPSTREAM_FWD = (  # of flash_attn_3, package tokenspeed-fa3 3.0.0.post20260810
    "flash_attn_3::fwd(Tensor q, Tensor k, Tensor v, Tensor(k_new!)? k_new=None, Tensor(v_new!)? v_new=None, Tensor? q_v=None, "
    "Tensor(out!)? out=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, Tensor? cu_seqlens_k_new=None, "
    "Tensor? seqused_q=None, Tensor? seqused_k=None, int? max_seqlen_q=None, int? max_seqlen_k=None, Tensor? page_table=None, "
    "Tensor? kv_batch_idx=None, Tensor? leftpad_k=None, Tensor? rotary_cos=None, Tensor? rotary_sin=None, "
    "Tensor? seqlens_rotary=None, Tensor? q_descale=None, Tensor? k_descale=None, Tensor? v_descale=None, "
    "float? softmax_scale=None, bool is_causal=False, int window_size_left=-1, int window_size_right=-1, int attention_chunk=0, "
    "float softcap=0., bool is_rotary_interleaved=False, Tensor? scheduler_metadata=None, int num_splits=0, "
    "bool? pack_gqa=None, int sm_margin=0{sinks}) -> (Tensor(out!), Tensor, Tensor, Tensor)"
)
UPSTREAM_COMBINE = (
    "flash_attn_3::fwd_combine(Tensor out_partial, Tensor lse_partial, Tensor(out!)? out=None, ScalarType? out_dtype=None) "
    "-> (Tensor(out!), Tensor)"
)
CONFLICT = "flash_attn_3:: belongs to {} in this process. PyTorch allows one library per namespace."


def make(operators: SimpleNamespace, *shape: int) -> Any:
    return operators.torch.randn(shape).to(operators.torch.float16)


def first(tensor: Any) -> float:
    return tensor.flatten()[0].item()


def test_replayed_launches_get_the_addresses_of_the_call(operators: SimpleNamespace) -> None:
    q, k = make(operators, 2, 8, 4, 64), make(operators, 2, 8, 4, 64)
    before = operators.kernels.standin_launches()
    for v in (k, make(operators, 2, 8, 4, 64), make(operators, 2, 8, 4, 64), k):
        out, lse = operators.ops.fwd(q, k, v, softmax_scale=0.25, causal=True)
        assert first(out) == first(v)  # the stand-in copies it
        assert (first(lse), out.shape, lse.shape) == (0.25, q.shape, (2, 4, 8))
    assert operators.kernels.standin_launches() == before + 4
    assert first(operators.ops.fwd(q, k, k, softmax_scale=0.5)[1]) == 0.5
    assert first(operators.ops.fwd(q, k, k, softmax_scale=0.25)[1]) == 0.25


def test_replayed_launches_borrow_pythons_workspace(operators: SimpleNamespace) -> None:
    from flashcore import _tensors

    q = make(operators, 2, 8, 4, 64)
    for _ in range(2):
        operators.ops.fwd(q, q, q)
    workspace = _tensors.find_workspace("flashcore_attention_forward", 0, 0)
    assert workspace is not None
    before = workspace[2][0].item()
    operators.ops.fwd(q, q, q)  # the stand-in adds one
    operators.flashcore.attention(q, q, q)
    assert workspace[2][0].item() == before + 2


def test_packed_rows_of_e4m3_give_bfloat16(operators: SimpleNamespace) -> None:
    torch, calls = operators.torch, 3
    q, starts = make(operators, 16, 4, 64).to(torch.float8_e4m3fn), torch.tensor([0, 5, 16], dtype=torch.int32)
    factor = torch.ones(2, 4)
    before = operators.kernels.standin_launches()
    for _ in range(calls):
        v = make(operators, 16, 4, 64).to(torch.float8_e4m3fn)
        out, lse = operators.ops.fwd(q, q, v, starts, starts, q_descale=factor, softmax_scale=0.25)
        assert (out.dtype, out.shape, lse.shape, first(lse)) == (torch.bfloat16, q.shape, (4, 16), 0.25)
        assert out.view(torch.uint8)[0, 0, :2].equal(v.view(torch.uint8)[0, 0, :2])
    assert operators.kernels.standin_launches() == before + calls
    with torch.device("meta"):
        meta = operators.ops.fwd(*(torch.empty_like(x, device="meta") for x in (q, q, q, starts, starts)))
    assert (meta[0].dtype, meta[0].shape) == (torch.bfloat16, q.shape)


@pytest.mark.parametrize(("name", "value"), [("softcap", 30.0), ("window_size_left", 64)])
def test_packed_rows_of_e4m3_have_no_limits(operators: SimpleNamespace, name: str, value: float) -> None:
    q, starts = (
        make(operators, 16, 4, 64).to(operators.torch.float8_e4m3fn),
        operators.torch.tensor([0, 16], dtype=operators.torch.int32),
    )
    with pytest.raises(RuntimeError, match=r"^window_size, attention_chunk, softcap, sinks: "):
        operators.ops.fwd(q, q, q, starts, starts, **{name: value})


def test_results_go_to_the_callers_tensors(operators: SimpleNamespace) -> None:
    q, out = make(operators, 2, 8, 4, 64), make(operators, 2, 8, 4, 64)
    lse = operators.torch.zeros(2, 4, 8)
    for _ in range(3):
        v = make(operators, 2, 8, 4, 64)
        assert operators.ops.fwd_out(out, None, q, q, v) is None
        assert first(out) == first(v)
        operators.ops.fwd_out(out, lse, q, q, v, softmax_scale=0.75)
        assert first(lse) == 0.75


def test_an_append_writes_the_callers_cache(operators: SimpleNamespace) -> None:
    q, lengths = make(operators, 2, 1, 4, 64), operators.torch.zeros(2, dtype=operators.torch.int32)
    for _ in range(3):
        k, v, new = make(operators, 2, 64, 4, 64), make(operators, 2, 64, 4, 64), make(operators, 2, 1, 4, 64)
        out, _ = operators.ops.fwd_append(q, k, v, new, new, seqused_k=lengths)
        assert (first(out), first(k)) == (first(v), first(new))


def test_packed_views_are_not_replayed_with_their_shape(operators: SimpleNamespace) -> None:
    """Many queries over pages run as packed rows, and the result has the query's shape again."""
    q, pool = make(operators, 2, 20, 4, 64), make(operators, 8, 16, 4, 64)
    table = operators.torch.zeros(2, 4, dtype=operators.torch.int32)
    for _ in range(3):
        out, lse = operators.ops.fwd(q, pool, pool, page_table=table)
        assert (out.shape, lse.shape) == (q.shape, (2, 4, 20))


def test_a_refused_launch_says_why(operators: SimpleNamespace) -> None:
    q = make(operators, 2, 8, 4, 64)
    for _ in range(2):
        operators.ops.fwd(q, q, q)
    operators.kernels.standin_refuse(1)
    try:
        with pytest.raises(RuntimeError, match=r"^k: refused by the stand-in$"):
            operators.ops.fwd(q, q, q)
    finally:
        operators.kernels.standin_refuse(0)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"^v: \(batch, sequence, heads, head_dim\) must be"):
            operators.ops.fwd(q, q, q[:, :, :1])
    assert first(operators.ops.fwd(q, q, q)[0]) == first(q)


def test_another_library_replaces_recorded_launches(operators: SimpleNamespace, tmp_path: Path) -> None:
    q, other = make(operators, 2, 8, 4, 64), tmp_path / "other.so"
    operators.ops.fwd(q, q, q)
    other.write_bytes((operators.folder / "libkernels.so").read_bytes())
    launches = operators.kernels.standin_launches()
    try:
        operators.flashcore.load(other)
        operators.ops.fwd(q, q, q)
        assert operators.kernels.standin_launches() == launches
    finally:
        operators.flashcore.load(operators.folder / "libkernels.so")
    operators.ops.fwd(q, q, q)
    assert operators.kernels.standin_launches() == launches + 1


def test_shapes_and_schemas_pass_opcheck(operators: SimpleNamespace) -> None:
    q = make(operators, 2, 8, 4, 64)
    check = operators.torch.library.opcheck
    passes = ("test_schema", "test_autograd_registration", "test_faketensor")
    check(operators.ops.fwd.default, (q, q, q), {"causal": True}, test_utils=passes)
    check(operators.ops.fwd_out.default, (operators.torch.empty_like(q), None, q, q, q), test_utils=passes)


@pytest.mark.parametrize("name", ["seqused_k", "page_table"])
def test_a_backward_that_is_not_served_is_refused_by_name(operators: SimpleNamespace, name: str) -> None:
    q, pool = make(operators, 2, 1, 4, 64).requires_grad_(), make(operators, 2, 64, 4, 64)
    value = operators.torch.ones((2, 1) if name == "page_table" else 2, dtype=operators.torch.int32)
    out, _ = operators.ops.fwd(q, pool, pool, **{name: value})
    with pytest.raises(NotImplementedError, match=f"^{name}: FlashCore computes no gradient"):
        out.sum().backward()


@pytest.mark.parametrize(("window", "options"), [((5, -1), (5, None)), ((5, 0), (5, 0)), ((-1, 7), (None, 7)), ((-1, -1), None)])
def test_a_window_reaches_the_backward_without_what_equals_a_default(
    operators: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, window: tuple[int, int], options: tuple[Any, Any] | None
) -> None:
    """The dispatcher leaves out last arguments that equal their default."""
    q, lse, seen = make(operators, 2, 8, 4, 64), operators.torch.zeros(2, 4, 8), []

    def backward(_dout: Any, *tensors: Any, **given: Any) -> Any:
        seen.append(given)
        return tuple(map(operators.torch.zeros_like, tensors[:3]))

    monkeypatch.setattr(operators.torch.ops.aten, "_flash_attention_backward", backward)
    operators.ops.bwd(q, q, q, q, q, lse, None, None, None, None, 0.5, False, *window)
    names = ("window_size_left", "window_size_right")
    assert seen == [{"scale": 0.5, **(dict(zip(names, options, strict=True)) if options else {})}]


def run_alone(operators: SimpleNamespace, code: str) -> str:
    """Run code in a new process with the package, and return what it printed."""
    text = f"import sys\nsys.path.insert(0, {str(KERNEL)!r})\nimport torch\n{code}"
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=operators.folder).stdout


def test_flash_attention_3_has_the_upstream_schema_and_modules(operators: SimpleNamespace) -> None:
    code = """
import flashcore.fa3
import flash_attn_interface, flash_attn_3.flash_attn_interface as inner
assert inner.flash_attn_func is flash_attn_interface.flash_attn_func is flashcore.flash_attn_func
print(torch.ops.flash_attn_3.fwd.default._schema)
"""
    schema = operators.torch._C.parse_schema(run_alone(operators, code).strip())
    for sinks in ("", ", Tensor? sinks=None"):
        assert schema.is_backward_compatible_with(operators.torch._C.parse_schema(UPSTREAM_FWD.format(sinks=sinks)))
    assert str(schema) == str(operators.torch._C.parse_schema(UPSTREAM_FWD.format(sinks=", Tensor? sinks=None")))


def test_the_merge_has_the_upstream_schema_shapes_and_default_type(operators: SimpleNamespace) -> None:
    code = """
import flashcore.fa3
from flash_attn_interface import flash_attn_combine
assert flash_attn_combine is flashcore.flash_attn_combine
combine = torch.ops.flash_attn_3.fwd_combine
print(combine.default._schema)
with torch._subclasses.FakeTensorMode():
    sums = torch.empty(7, 2, 3, 5, device="meta").transpose(2, 3)
    for dtype in (None, torch.bfloat16):
        out, lse = combine(torch.empty(7, 2, 5, 3, 64, device="meta"), sums, out_dtype=dtype)
        print(out.shape, out.dtype, lse.shape, lse.stride(), lse.dtype)
"""
    schema, *shapes = run_alone(operators, code).splitlines()
    assert schema == str(operators.torch._C.parse_schema(UPSTREAM_COMBINE))
    assert shapes == [
        f"torch.Size([2, 5, 3, 64]) torch.{name} torch.Size([2, 5, 3]) (15, 1, 5) torch.float32"
        for name in ("float32", "bfloat16")
    ]


def test_the_merge_passes_the_strides_of_upstreams_views(operators: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    from flashcore import _combine

    monkeypatch.setattr(_combine, "current_stream", lambda _device: 0)
    torch = operators.torch
    partial = torch.randn(10, 2, 3, 7, 20).transpose(2, 3)[:5]  # as test_flash_attn_combine
    sums = torch.randn(5, 2, 6, 7).transpose(-1, -2)[:, :, :, :3]
    out, lse = operators.flashcore.flash_attn_combine(partial, sums)
    torch.testing.assert_close(lse, torch.logsumexp(sums, dim=0))
    expected = (torch.exp(sums - lse).unsqueeze(-1) * partial).sum(0)
    torch.testing.assert_close(out, expected)
    given = torch.empty(2, 3, 7, 24).transpose(1, 2)[..., :20]
    assert operators.flashcore.flash_attn_combine(partial, sums, given)[0] is given
    torch.testing.assert_close(given, expected)


@pytest.mark.parametrize(
    ("code", "owner"),
    [
        ("import flashcore.fa3\nattempt('flash_attn_3._C')", "FlashCore"),
        ("theirs = torch.library.Library('flash_attn_3', 'DEF')\ntheirs.define('fwd(Tensor q) -> Tensor')\nattempt('flashcore.fa3')",
         "another package"),
        ("theirs = torch.library.Library('flash_attn_3', 'DEF')\nattempt('flashcore.fa3')", "another package"),
    ],
)  # fmt: skip
def test_two_packages_in_one_process_are_one_clear_error(operators: SimpleNamespace, code: str, owner: str) -> None:
    attempt = """
import importlib
def attempt(name):
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(error)
"""
    assert run_alone(operators, attempt + code).startswith(CONFLICT.format(owner))
