"""Every entry point on two Hopper GPUs: the bits of each, the GPU that is not the current one, its streams, and two threads.

FLASHCORE_LIBRARY also needs E4M3 with the kernels that round to it: ``flashcore-ci build --suite gates/fp8-quantise.toml``.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from device_calls import CALLS, ONE_TENSOR, Maker, operators  # noqa: E402 - needs torch

pytestmark = pytest.mark.gpu

FIRST, SECOND = "cuda:0", "cuda:1"
TURNS = 5


@pytest.fixture(autouse=True)
def two_devices() -> None:
    found = torch.cuda.device_count()
    if found < 2:
        pytest.skip(f"needs two GPUs, and {found} is visible")


def call(flashcore: Any, name: str, maker: Maker) -> tuple[Any, ...]:
    with torch.no_grad():
        results = CALLS[name](flashcore, maker)
    return results if isinstance(results, tuple) else (results,) if isinstance(results, torch.Tensor) else tuple(results)


def compare(expected: tuple[Any, ...], found: tuple[Any, ...], device: str) -> None:
    assert {str(tensor.device) for tensor in found} == {device}
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(*(tensor.cpu().contiguous().view(torch.uint8) for tensor in (one, other)))


@pytest.mark.parametrize("name", CALLS)
def test_both_devices_give_the_same_bits(flashcore: Any, name: str) -> None:
    expected = call(flashcore, name, Maker(FIRST))
    assert any(bool(tensor.float().isfinite().any()) for tensor in expected)
    with torch.cuda.device(SECOND):
        for _ in range(2):  # the second is replayed
            compare(expected, call(flashcore, name, Maker(SECOND)), SECOND)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("current", [FIRST, SECOND])
def test_a_device_that_is_not_the_current_one(flashcore: Any, name: str, current: str) -> None:
    """Both take turns, and nothing waits in between."""
    expected = call(flashcore, name, Maker(FIRST))
    with torch.cuda.device(current):
        results = [(device, call(flashcore, name, Maker(device))) for device in (SECOND, FIRST) * 2]
        assert torch.cuda.current_device() == int(current[-1])
    for device, found in results:
        compare(expected, found, device)


@pytest.mark.parametrize("name", CALLS)
def test_a_launch_follows_the_stream_of_its_own_device(flashcore: Any, name: str) -> None:
    """Inputs are written late, on a stream of the device that is not the current one."""
    expected = call(flashcore, name, Maker(FIRST))
    for _ in range(2):
        with torch.cuda.stream(torch.cuda.Stream(SECOND)), torch.cuda.device(FIRST):
            found = call(flashcore, name, Maker(SECOND, held=True))
        torch.cuda.synchronize(SECOND)
        compare(expected, found, SECOND)


def test_gradients_of_the_device_that_is_not_the_current_one() -> None:
    """The backward is PyTorch's, which adds up in any order."""
    results = []
    for device in (FIRST, SECOND):
        m = Maker(device)
        tensors = [tensor.requires_grad_() for tensor in (m(2, 300, 8, 128), m(2, 300, 2, 128), m(2, 300, 2, 128))]
        results.append(torch.autograd.grad(operators().fwd(*tensors, causal=True)[0].float().square().sum(), tensors))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(other.cpu(), one.cpu(), rtol=2e-2, atol=2e-2 * float(one.abs().max()))


def test_a_graph_of_the_device_that_is_not_the_current_one(flashcore: Any) -> None:
    m = Maker(SECOND)
    q, k, v, token, lengths = m(2, 300, 8, 128), m(2, 300, 2, 128), m(2, 300, 2, 128), m(2, 1, 8, 128), m.whole(300, 7)
    outputs = torch.empty_like(q), torch.empty_like(token)

    def launch(*results: Any) -> None:
        flashcore.attention(q, k, v, causal=True, out=results[0])
        flashcore.decode(token, k, v, lengths=lengths, out=results[1])

    with torch.cuda.device(SECOND):
        launch(*outputs)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            launch(*outputs)
    q.add_(0.25)
    token.add_(0.25)
    graph.replay()
    expected = tuple(torch.empty_like(tensor) for tensor in outputs)
    launch(*expected)
    compare(expected, outputs, SECOND)


def test_a_thread_on_each_device(flashcore: Any) -> None:
    expected = {name: call(flashcore, name, Maker(FIRST)) for name in CALLS}
    wrong: list[str] = []

    def work(device: str) -> None:
        with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
            for _, name in itertools.product(range(TURNS), CALLS):
                try:
                    compare(expected[name], call(flashcore, name, Maker(device)), device)
                except Exception as error:  # noqa: BLE001 - a thread has nobody above it
                    wrong.append(f"{name} on {device}: {error!r}"[:300])

    threads = [threading.Thread(target=work, args=(device,)) for device in (FIRST, SECOND)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("name", sorted(set(CALLS) - ONE_TENSOR))
def test_tensors_of_two_devices_are_refused(flashcore: Any, name: str) -> None:
    """A kernel could read the other's memory through NVLink, and race with its writers."""
    with pytest.raises((ValueError, RuntimeError, NotImplementedError)):
        call(flashcore, name, Maker(FIRST, stray=SECOND))
    torch.cuda.synchronize(FIRST)
    torch.cuda.synchronize(SECOND)
