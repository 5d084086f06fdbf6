"""Workspaces: one per stream and operation, one per capture, and alive until the launch is in its stream. No GPU, no torch."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import standin_torch as torch

STREAM, BATCHES, THREADS = 7, 800, 8


@pytest.fixture
def memory(bindings: Any, monkeypatch: pytest.MonkeyPatch) -> weakref.WeakValueDictionary[int, torch.Tensor]:
    """Every workspace that is not freed, by address."""
    alive: weakref.WeakValueDictionary[int, torch.Tensor] = weakref.WeakValueDictionary()

    def zeros(_device: int, size: int) -> torch.Tensor:
        tensor = torch.empty(size, dtype=torch.uint8)
        alive[tensor.address] = tensor
        return tensor

    monkeypatch.setattr(bindings.tensors, "_zeros", zeros)
    return alive


def caches(batch: int) -> dict[str, torch.Tensor]:
    keys = torch.empty(batch, 100, 2, 64)
    return {"q": torch.empty(batch, 1, 8, 64), "k": keys, "v": keys}


def test_launches_of_a_stream_share_a_workspace_and_operations_do_not(bindings: Any) -> None:
    def get_address(*arguments: Any) -> int:
        return int(bindings.tensors.get_workspace(*arguments)[0])

    first = get_address("decode", 0, STREAM, 100)
    assert get_address("decode", 0, STREAM, 60) == first
    others = [("decode", 0, 8, 100), ("attention", 0, STREAM, 8), ("decode", 0, STREAM, 200)]
    assert len({first, *(get_address(*other) for other in others)}) == 4


def test_every_capture_has_its_own_workspace(bindings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the driver does not name the capture, every launch has one."""

    def get_address() -> int:
        return int(bindings.tensors.get_workspace("decode", 0, STREAM, 100)[0])

    eager = get_address()
    torch.state.capturing = True
    captures = iter([1, 1, 2, 0, 0])
    monkeypatch.setattr(bindings.tensors, "_get_capture_id", lambda stream: next(captures))
    first, again, second, unnamed, unnamed_again = (get_address() for _ in range(5))
    assert first == again
    assert len({eager, first, second, unnamed, unnamed_again}) == 5
    torch.state.capturing = False
    assert get_address() == eager


@pytest.mark.parametrize("capturing", [False, True])
def test_graphs_of_torch_compile_own_their_memory(
    bindings: Any, memory: Any, monkeypatch: pytest.MonkeyPatch, capturing: bool
) -> None:
    """Nothing keeps a workspace of their stream. Another stream's is shared as ever."""
    torch.state.capturing = capturing
    monkeypatch.setattr(bindings.tensors, "_get_capture_id", lambda stream: 1)
    manager = SimpleNamespace(stream=SimpleNamespace(cuda_stream=STREAM))
    trees = SimpleNamespace(get_manager=lambda _device, create_if_none_exists: manager)
    monkeypatch.setitem(sys.modules, "torch._inductor.cudagraph_trees", trees)
    assert bindings.tensors.get_workspace("decode", 0, STREAM, 100)[1] >= 100
    assert len(memory) == 0
    first = bindings.tensors.get_workspace("decode", 0, STREAM + 1, 100)[0]
    assert first == bindings.tensors.get_workspace("decode", 0, STREAM + 1, 100)[0]
    assert len(memory) == 1


@pytest.mark.parametrize("capturing", [False, True])
def test_a_replaced_workspace_lives_until_its_launch(
    bindings: Any, memory: Any, monkeypatch: pytest.MonkeyPatch, capturing: bool
) -> None:
    """As if another thread replaced it between the look-up and the launch."""
    torch.state.capturing = capturing
    monkeypatch.setattr(bindings.tensors, "_get_capture_id", lambda stream: 1)

    def launch(address: int) -> int:
        workspace = bindings.decode.Arguments.from_address(address).workspace
        larger = bindings.tensors.get_workspace("flashcore_decode", 0, STREAM, 1 << 20)
        assert larger[0] != workspace
        return 0 if workspace in memory else 1

    bindings.kernels.flashcore_decode = launch
    bindings.flashcore.decode(**caches(3))
    assert len(memory) == 1, "the replaced workspace is freed after the launch"


def test_threads_on_one_stream_never_launch_with_freed_memory(
    bindings: Any, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every new batch replaces the workspace while other threads are about to launch."""
    failures: list[str] = []
    sizes = itertools.count(1024, 1024)

    def launch(address: int) -> int:
        arguments = bindings.decode.Arguments.from_address(address)
        workspace = memory.get(arguments.workspace)
        if workspace is None or workspace.numel() < arguments.workspace_bytes:
            failures.append(f"batch {arguments.batch}: {workspace}")
        return 0

    def find_launch(_kernels: Any) -> Any:
        sum(range(1000))  # time for another thread between the look-up of the workspace and the launch
        return launch

    monkeypatch.setattr(type(bindings.kernels), "flashcore_decode", property(find_launch), raising=False)
    bindings.kernels.flashcore_decode_workspace_bytes = lambda _reference: next(sizes)

    def run(first: int) -> None:
        for batch in range(first, BATCHES, THREADS):
            bindings.flashcore.decode(**caches(batch))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=run, args=(1 + index,)) for index in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert failures == []
