"""How long trials are held, and what the time of a launch in a graph is, with a torch that only counts."""

import contextlib
import sys
from types import SimpleNamespace

import pytest

from flashcore_ci.worker import audits, launchers


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

    cost = launchers.measure_cost(SimpleNamespace(launch=lambda: (launch(),), milliseconds=lambda _: 1.0))
    assert cost.host == pytest.approx(host)
    assert cycles == [pytest.approx(held * launchers.HOLD_CYCLES_PER_MS)]


START_US, LAUNCH_US = 9.0, 2.9


class CountingTorch:
    """A GPU that takes ``start`` µs to start a graph, and 2.9 µs for each launch in it. ``done``: what ran, in order."""

    def __init__(self, start: float = START_US) -> None:
        self.start, self.now, self.done = start, 0.0, []
        self.capturing: list[str] | None = None
        self.cuda = SimpleNamespace(
            CUDAGraph=lambda: Graph(self), graph=self.graph, Event=lambda **_: Event(self), synchronize=lambda: None
        )
        self.zeros = lambda *_, **__: SimpleNamespace(add_=lambda _: self.run("warm"))

    @contextlib.contextmanager
    def graph(self, graph):
        self.capturing = graph.content
        yield
        self.capturing = None

    def run(self, name: str) -> None:
        (self.done if self.capturing is None else self.capturing).append(name)


class Graph:
    def __init__(self, torch: CountingTorch) -> None:
        self.torch, self.content = torch, []

    def replay(self) -> None:
        self.torch.now += self.torch.start + LAUNCH_US * len(self.content)
        self.torch.done.append(f"{self.content[0]}..{len(self.content)}")


class Event:
    def __init__(self, torch: CountingTorch) -> None:
        self.torch, self.at = torch, 0.0

    def record(self) -> None:
        self.at = self.torch.now

    def elapsed_time(self, other) -> float:
        return (other.at - self.at) / 1e3


def graph_launch(monkeypatch, torch: CountingTorch, sets: int = 41) -> launchers.GraphLaunch:
    """Make the launcher of ``sets`` sets, whose kernel and poison only leave their names."""
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(launchers.tensors, "poison", lambda *_: torch.run("poison"))
    launchers._warm_graphs.cache_clear()
    subject = SimpleNamespace(run=lambda *_: torch.run("kernel"))
    pool = SimpleNamespace(subject=subject, sets=[SimpleNamespace(inputs={}, outputs={}) for _ in range(sets)])
    context = SimpleNamespace(empty_l2=lambda: torch.run("flush"))
    launcher = launchers.GraphLaunch(context, pool, lambda sets: sets[-1])
    torch.done.clear()
    return launcher


@pytest.mark.parametrize("start", [5.0, 9.0, 13.0])
@pytest.mark.parametrize("sets", [16, 41, 64])
def test_the_start_of_a_graph_is_not_in_the_time_of_a_launch(monkeypatch, start, sets):
    """It costs 4 µs more in processes that load PyTorch from compiled files: 3 % of a kernel of 3 µs, which then had drifted."""
    launcher = graph_launch(monkeypatch, CountingTorch(start), sets)
    assert launcher.milliseconds(launcher.launch()) == pytest.approx(LAUNCH_US / 1e3)


def test_each_graph_finds_poison_and_a_cold_cache(monkeypatch):
    torch = CountingTorch()
    launcher = graph_launch(monkeypatch, torch)
    assert (launcher.short, launcher.launches, launcher.submitted) == (20, 41, 61)
    launcher.launch()
    assert torch.done == ["poison..41", "flush", "kernel..20", "poison..41", "flush", "kernel..41"]


def test_an_audit_sees_the_longer_graph_alone(monkeypatch):
    torch = CountingTorch()
    launcher = graph_launch(monkeypatch, torch)
    ((start, stop),) = launcher.launch(lambda: torch.run("hold"))
    assert torch.done == ["poison..41", "flush", "hold", "kernel..41"]
    assert start.elapsed_time(stop) == pytest.approx((START_US + 41 * LAUNCH_US) / 1e3)


def test_noise_gives_no_negative_time(monkeypatch):
    launcher = graph_launch(monkeypatch, CountingTorch())
    (first, second), (third, fourth) = launcher.launch()
    assert launcher.milliseconds(((third, fourth), (first, second))) == launchers.LEAST_MS


def test_the_first_timed_graph_of_a_process_is_not_its_first_graph(monkeypatch):
    torch = CountingTorch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    launchers._warm_graphs.cache_clear()
    launchers._warm_graphs()
    launchers._warm_graphs()
    assert torch.done == ["warm..64"] * 6 + ["warm..32"] * 3
    assert max(launchers.WARM_GRAPHS) >= max(launchers.GRAPH_SETS)


def test_slow_launches_in_the_shorter_graph_alone_are_no_faster_kernel(monkeypatch):
    """They would leave the slope. What is left is the start, and the audit knows how long that can be."""
    torch = CountingTorch()
    launcher = graph_launch(monkeypatch, torch)
    launcher.milliseconds(launcher.launch())
    assert launcher.start == pytest.approx(START_US / 1e3)
    launcher = graph_launch(monkeypatch, torch)
    replay = launcher._short.replay
    launcher._short.replay = lambda: (replay(), setattr(torch, "now", torch.now + 25.0))
    assert launcher.milliseconds(launcher.launch()) < 0.6 * LAUNCH_US / 1e3
    assert launcher.start > 0.03


class Kernel:
    """Doubles ``x``. If it ``keeps``, it gives the result of the values that it saw one launch before, as a cache does that it fills."""

    def __init__(self, keeps: bool) -> None:
        self.kept, self.keeps = {}, keeps

    def launch(self, inputs, outputs) -> None:
        result = 2.0 * inputs["x"]
        outputs["out"] = self.kept.get(id(inputs), result) if self.keeps else result
        self.kept[id(inputs)] = result


@pytest.mark.parametrize("keeps", [False, True])
def test_kept_results_of_a_graph_are_found(monkeypatch, keeps):
    """With new values the longer graph is launched alone: the shorter one before would renew what was kept."""
    kernel = Kernel(keeps)
    monkeypatch.setattr(audits.tensors, "may_change", lambda *_: True)
    monkeypatch.setattr(audits.tensors, "poison", lambda outputs, _: outputs.update(out=None))
    monkeypatch.setattr(audits.tensors, "same_bits", lambda first, second: first == second)
    value = SimpleNamespace
    used = value(inputs=Inputs(x=1.0), outputs={})
    kernel.launch(used.inputs, used.outputs)

    def launch(hold=None) -> None:
        for _ in range(2 if hold is None else 1):  # the shorter graph, and the longer one
            kernel.launch(used.inputs, used.outputs)

    subject = value(run=Kernel(False).launch, inputs=lambda *_: {"x": 3.0}, outputs=lambda _: {})
    pool = value(subject=subject, sets=[used], work=value(params={}, seed=0))
    assert audits.replays_results(pool, value(launches=41, launch=launch)) is keeps


class Inputs(dict):
    """Inputs whose tensors are numbers: copying a value writes it here."""

    def __getitem__(self, name):
        return Number(self, name)

    def items(self):
        return [(name, self[name]) for name in self]


class Number(float):
    """A tensor of one element."""

    def __new__(cls, owner, name):
        self = super().__new__(cls, dict.__getitem__(owner, name))
        self.copy_ = lambda value: owner.__setitem__(name, float(value))
        return self
