"""Work on other streams, as the worker's audit sees it on a GPU."""

from __future__ import annotations

import gpu_streams
import pytest
import stream_kernels

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def machine() -> gpu_streams.Machine:
    return gpu_streams.Machine()


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")  # torch.compile imports it
@pytest.mark.parametrize("name", stream_kernels.HONEST)
def test_honest_kernels_are_green(machine: gpu_streams.Machine, name: str) -> None:
    machine.warm(name)
    assert machine.look(name)["found"] == ""


@pytest.mark.parametrize("name", stream_kernels.CHEATS)
def test_cheats_are_red(machine: gpu_streams.Machine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where lines may persist in L2, they are reset before each launch, which lets the device wait for all streams: none can be early.
    monkeypatch.setattr(machine.context.driver, "persisting_bytes", lambda: 0)
    assert "work on another stream is not timed" in machine.look(name, batched=False)["found"]


def test_a_clock_that_reports_half_is_red(machine: gpu_streams.Machine) -> None:
    assert "work on another stream is not timed" in machine.look("double", batched=False)["half"]
