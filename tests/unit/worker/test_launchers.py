"""How long trials are held, with a torch that only counts."""

import sys
from types import SimpleNamespace

import pytest

from flashcore_ci.worker import launchers


@pytest.mark.parametrize(("host", "held"), [(0.1, 5.0), (0.6, 5.0), (2.0, 15.0), (90.0, 100.0)])
def test_trials_are_held_until_the_host_has_submitted_them(monkeypatch, host, held):
    """5 ms were too short for launches that take the host over 1 ms. The device then seemed as slow as the host."""
    clock, cycles = [0.0], []
    event = SimpleNamespace(elapsed_time=lambda _: 1.0)
    cuda = SimpleNamespace(synchronize=lambda: None, _sleep=cycles.append)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(launchers.time, "perf_counter", lambda: clock[0])

    def launch():
        clock[0] += host / 1e3
        return event, event

    cost = launchers.measure_cost(SimpleNamespace(launch=launch))
    assert cost.host == pytest.approx(host)
    assert cycles == [pytest.approx(held * launchers.HOLD_CYCLES_PER_MS)]
