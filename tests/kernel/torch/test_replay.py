"""What C++ keeps between the calls of an operator: launches by kind of call, workspaces, and none of the arguments."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB, and both C++ files compile in 10 s

ROOT = Path(__file__).parents[3]
KINDS, ROUNDS = 7, 3  # more kinds than a thread finds without a lock
SETUP = """
import flashcore
from flashcore import _launch, _replay, _tensors
_tensors.DEVICE, _replay.KEY = "cpu", "CPU"
_tensors._zeros = lambda _device, size: torch.zeros(size, dtype=torch.uint8)
_launch.current_stream = lambda _device: 0
flashcore.load({library!r})
import flashcore.fa3
"""
FLASH3 = """
def half(*shape): return torch.randn(shape).half()
fwd, lengths = torch.ops.flash_attn_3.fwd.default, torch.ones(2, dtype=torch.int32)
def check(out):
    q, k, v = half(2, 1, 4, 64), half(2, 64, 4, 64), half(2, 64, 4, 64)
    given = (q, k, v, None, None, None, out, *[None] * 4, lengths, *[None] * 11, 0.25, True)
    found, lse, third, fourth = fwd(*given)
    assert found.flatten()[0] == v.flatten()[0] and lse.flatten()[0] == 0.25 and (third, fourth) == (None, None)
    assert (found.shape, lse.shape) == (q.shape, (2, 4, 1)) and (out is None or found.data_ptr() == out.data_ptr())
for _ in range(3):
    check(None)
    check(half(2, 1, 4, 64))
with torch.no_grad():
    check(None)
    check(half(2, 1, 4, 64))
flashcore.ops.compute = None  # a call of Python would fail
with torch.no_grad():
    check(None)
    check(half(2, 1, 4, 64))
"""
MEMORY = """
import resource, weakref
fwd, keys = torch.ops.flashcore.fwd, torch.zeros(1, 8, 1, 64).half()
def draw(): return torch.zeros(1, 1, 1, 64).half().expand(1, 1 << 20, 1, 64)  # its output has 128 MiB
with torch.no_grad():
    for _ in range(3):
        fwd(draw(), keys, keys)
    q, k = draw(), torch.zeros(1, 8, 1, 64).half()
    seen = weakref.ref(k)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), resource.RLIM_INFINITY))
    try:
        fwd(q, k, k)
        print("not refused")
    except RuntimeError as error:
        message = str(error)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
    del k
assert "memory" in message, message
assert seen() is None, "the arguments were kept"
"""


def make(operators: SimpleNamespace, *shape: int) -> Any:
    return operators.torch.randn(shape).to(operators.torch.float16)


def check(operators: SimpleNamespace, batch: int) -> None:
    q, v = make(operators, batch, 8, 4, 64), make(operators, batch, 8, 4, 64)
    out, lse = operators.ops.fwd(q, q, v, softmax_scale=batch / 8)
    assert (out.flatten()[0], lse.flatten()[0]) == (v.flatten()[0], batch / 8)
    assert (out.shape, lse.shape) == (q.shape, (batch, 4, 8))


def check_all(operators: SimpleNamespace) -> None:
    for batch in range(1, KINDS + 1):
        check(operators, batch)


def test_calls_of_many_kinds_take_turns_without_python(operators: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    check_all(operators)
    monkeypatch.setattr(operators.flashcore.ops, "compute", None)  # a call of Python would fail
    for _ in range(ROUNDS):
        check_all(operators)


def test_threads_replay_while_others_record(operators: SimpleNamespace) -> None:
    errors: list[Exception] = []

    def work(first: int) -> None:
        try:
            for batch in range(first, first + KINDS):
                check(operators, batch)
                check(operators, 3)
        except Exception as error:  # noqa: BLE001 - shown below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(10 + 2 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_launch_of_a_library_replaced_meanwhile_is_not_kept(
    operators: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if another thread loaded a library while this call ran in Python."""
    compute, calls = operators.flashcore.ops.compute, []

    def load_meanwhile(*given: Any, **options: Any) -> Any:
        calls.append(given)
        for forget in operators.flashcore._library._on_load:
            forget()
        return compute(*given, **options)

    monkeypatch.setattr(operators.flashcore.ops, "compute", load_meanwhile)
    check(operators, 90)
    check(operators, 90)
    assert len(calls) == 2
    monkeypatch.setattr(operators.flashcore.ops, "compute", compute)
    check(operators, 90)
    monkeypatch.setattr(operators.flashcore.ops, "compute", None)
    check(operators, 90)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_a_replayed_call_keeps_no_argument(operators: SimpleNamespace, mode: str) -> None:
    with getattr(operators.torch, mode)():
        for _ in range(ROUNDS):
            tensors = [make(operators, 2, 8, 4, 64) for _ in "qkv"]
            seen = [weakref.ref(tensor) for tensor in tensors]
            results = operators.ops.fwd(*tensors)
            del tensors
            assert [tensor() for tensor in seen] == [None] * 3
            seen = [weakref.ref(tensor) for tensor in results]
            del results
            assert [tensor() for tensor in seen] == [None] * 2


def test_a_replayed_call_uses_the_newest_workspace(operators: SimpleNamespace) -> None:
    from flashcore import _replay

    with operators.torch.no_grad():
        for _ in range(ROUNDS):
            check(operators, 2)
        (key, before), *_ = [item for item in _replay._lent.items() if item[0][0] == find_entry(operators)]
        larger, replay = operators.torch.zeros(4096, dtype=operators.torch.uint8), _replay.find()
        assert replay is not None
        try:
            replay.flashcore_ops_lend(*key, larger.data_ptr(), 4096)
            check(operators, 2)
            assert larger[0] == 1  # the stand-in adds one
        finally:
            replay.flashcore_ops_lend(*key, *before[:2])
        check(operators, 2)
        assert larger[0] == 1


def find_entry(operators: SimpleNamespace) -> int | None:
    return ctypes.cast(operators.kernels.flashcore_attention_forward, ctypes.c_void_p).value


def test_a_tensor_with_too_many_dimensions_is_python_s_to_refuse(operators: SimpleNamespace) -> None:
    q, many = make(operators, 2, 8, 4, 64), make(operators, 1, 2, 8, 4, 64)
    for _ in range(ROUNDS):
        with pytest.raises(RuntimeError, match=r"^v: must be a tensor of at most 4 dimensions, has 5$"):
            operators.ops.fwd(q, q, many)
        check(operators, 2)


def test_a_gradient_is_refused_also_after_calls_without_one(operators: SimpleNamespace) -> None:
    q, k, v = (make(operators, 2, 8, 4, 64) for _ in "qkv")
    out = operators.torch.empty_like(q)
    for _ in range(ROUNDS):
        operators.ops.fwd_out(out, None, q, k, v)
        with operators.torch.no_grad():
            operators.ops.fwd_out(out, None, q, k, v)
    q.requires_grad_()
    for _ in range(ROUNDS):
        with pytest.raises(RuntimeError, match="requires a gradient"):
            operators.ops.fwd_out(out, None, q, k, v)


@pytest.mark.parametrize("program", [FLASH3, MEMORY], ids=["the output it was given", "without memory"])
def test_flash_attention_3_and_a_call_without_memory(operators: SimpleNamespace, program: str) -> None:
    """The second raises, and keeps no argument."""
    path = f"import sys, torch\nsys.path.insert(0, {str(ROOT / 'kernel')!r})\n"
    code = path + SETUP.format(library=str(operators.folder / "libkernels.so")) + program
    environment = {**os.environ, "FLASHCORE_LIBRARY": str(operators.folder)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert (done.stdout, done.stderr) == ("", "")
