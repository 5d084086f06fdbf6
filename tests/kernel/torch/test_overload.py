"""Calls of ``flash_attn_3::fwd`` in Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB, and both C++ files compile in 10 s

ROOT = Path(__file__).parents[3]
SETUP = f"""
import os, sys, torch
sys.path.insert(0, {str(ROOT / "kernel")!r})
import flashcore
from flashcore import _launch, _replay, _tensors
_tensors.DEVICE, _replay.KEY = "cpu", "CPU"
_tensors._zeros = lambda _device, size: torch.zeros(size, dtype=torch.uint8)
_launch.current_stream = lambda _device: 0
flashcore.load(os.environ["FLASHCORE_LIBRARY"] + "/libkernels.so")
import flashcore.fa3
from flashcore import _step
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
def half(*shape): return torch.randn(shape).half()
fwd, lengths = torch.ops.flash_attn_3.fwd, torch.ones(2, dtype=torch.int32)
q, k, v = half(2, 1, 4, 64), half(2, 64, 4, 64), half(2, 64, 4, 64)
def check(results):
    out, lse, *rest = results
    assert out.flatten()[0] == v.flatten()[0] and lse.flatten()[0] == 0.25 and rest == [None, None], results
    assert (out.shape, lse.shape) == (q.shape, (2, 4, 1))
def call(forward):
    check(forward(q, k, v, *[None] * 8, lengths, *[None] * 11, 0.25, True, -1, -1, 0, 0.0, True, None, 1, None, 0))
    check(forward(q, k, v, seqused_k=lengths, softmax_scale=0.25, is_causal=True, num_splits=1))
def call_all():
    for forward in (fwd.default, fwd, torch.ops.flash_attn_3.fwd.default):
        call(forward)
"""
PROGRAMS = {
    "modes": """
call_all()
steps = []
class Calls(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        steps.append(str(func))
        return func(*args, **kwargs or {})
class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        steps.append(func)
        return func(*args, **kwargs or {})
with torch.no_grad():
    call_all()
    with Calls():
        fwd.default(q, k, v, seqused_k=lengths, softmax_scale=0.25)
    assert [name for name in steps if "flash" in name] == ["flash_attn_3.fwd.default"], steps
    steps.clear()
    with Functions():
        fwd.default(q, k, v, seqused_k=lengths, softmax_scale=0.25)
    assert fwd.default in steps, steps
""",
    "profiler": """
with torch.no_grad():
    call_all()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call(fwd)
    names = {event.key for event in profile.key_averages()}
    assert "flashcore::_step" in names, names
""",
    "without Python": """
with torch.no_grad():
    for _ in range(3):
        call_all()
    flashcore._step.attend_to_cache = flashcore.ops.compute = None  # a call of Python would fail
    call_all()
""",
    "errors": """
def refuse(call, kind, text):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError("not refused")
for _ in range(3):
    with torch.no_grad():
        refuse(lambda: fwd.default(q, k[:, :, :3], v, seqused_k=lengths), RuntimeError, "v: must have shape")
        refuse(lambda: fwd.default(q, k, seqused_k=lengths), RuntimeError, "'v'")
        refuse(lambda: fwd.default(q, k, v, seqused_k=lengths, nothing=1), RuntimeError, "nothing")
        refuse(lambda: fwd.default(q, k, v, *[None] * 33), RuntimeError, "q")
        refuse(lambda: fwd.default(k=k, v=v, seqused_k=lengths), RuntimeError, "missing value for argument 'q'")
        for name, value in (
            ("window_size_left", -1.0), ("window_size_right", -1.0), ("attention_chunk", None), ("softcap", None), ("sm_margin", ""),
        ):
            refuse(lambda: fwd.default(q, k, v, seqused_k=lengths, **{name: value}), RuntimeError, name)
        refuse(lambda: fwd.default(q, k, v, seqused_k=lengths, softmax_scale="1"), RuntimeError, "softmax_scale")
    wanted = half(2, 1, 4, 64).requires_grad_()
    refuse(lambda: fwd.default(wanted, k, v, seqused_k=lengths), RuntimeError, "requires a gradient")
""",
    "identity": """
import copy, pickle
assert isinstance(fwd.default, torch._ops.OpOverload) and isinstance(fwd, torch._ops.OpOverloadPacket)
assert {fwd.default: 1}[torch.ops.flash_attn_3.fwd.default] == 1 and copy.deepcopy(fwd.default) is fwd.default
assert str(fwd.default) == "flash_attn_3.fwd.default" and len(fwd.default._schema.arguments) == 35
with torch.no_grad():
    step = torch.compile(lambda q: fwd.default(q, k, v, seqused_k=lengths, softmax_scale=0.25)[0], fullgraph=True, backend="eager")
    assert step(q).shape == q.shape
    script = torch.jit.trace(lambda q: torch.ops.flash_attn_3.fwd(q, k, v, seqused_k=lengths, softmax_scale=0.25)[0], q)
    assert script(q).flatten()[0] == v.flatten()[0]
    assert "flash_attn_3::fwd" in str(script.graph) and "_step" not in str(script.graph), script.graph
    from torch.fx.experimental.proxy_tensor import make_fx
    for early in (False, True):
        graph = make_fx(lambda q: fwd.default(q, k, v, seqused_k=lengths, softmax_scale=0.25)[0], pre_dispatch=early)(q).graph
        assert fwd.default in {node.target for node in graph.nodes}, graph
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_flash_attention_3(operators: SimpleNamespace, program: str) -> None:
    environment = {**os.environ, "FLASHCORE_LIBRARY": str(operators.folder)}
    done = subprocess.run([sys.executable, "-c", SETUP + program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
