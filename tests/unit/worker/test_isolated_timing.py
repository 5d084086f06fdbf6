from types import SimpleNamespace

import pytest

from flashcore_ci.worker import isolated_timing
from flashcore_ci.worker.audits import OutputChangedError
from flashcore_ci.worker.clocks import Burst
from flashcore_ci.worker.isolated_bursts import Bursts as RealBursts
from flashcore_ci.worker.isolated_timing import WINDOW_PAIRS, _is_settled
from flashcore_ci.worker.steady_state import Block
from flashcore_ci.worker.unjoined import NotSeenError


def blocks(cycles, *, at=1.0, throttled=()):
    return [Block(at=at, ms=value, mhz=1000.0, throttled=index in throttled) for index, value in enumerate(cycles)]


@pytest.mark.parametrize(
    "cycles", [(1.0,) * WINDOW_PAIRS, (1.0, 1.03, 0.98, 1.02, 0.99, 1.01), (1.2, *[1.0] * WINDOW_PAIRS)], ids=str
)
def test_noise_around_one_value_is_settled(cycles):
    assert _is_settled(blocks(cycles))


@pytest.mark.parametrize("step", [0.01, 0.03, -0.03])
def test_a_drift_is_not_noise(step):
    assert not _is_settled(blocks([1.0 + step * number for number in range(WINDOW_PAIRS)]))


def test_a_step_is_not_noise():
    assert not _is_settled(blocks([1.0] * 3 + [1.03] * 3))


@pytest.mark.parametrize(
    "seen",
    [blocks([1.0] * (WINDOW_PAIRS - 1)), blocks([1.0] * WINDOW_PAIRS, at=0.2), blocks([1.0] * WINDOW_PAIRS, throttled={2})],
)
def test_too_little_was_seen(seen):
    assert not _is_settled(seen)


class Bursts:
    """Bursts of an honest candidate, in a record of what was asked."""

    sizes = (4, 8, 16)

    def __init__(self, factor=1.0):
        self.mhz, self.asked, self.factor = [], [], factor

    def run(self, candidate, sets, launches, *, graph=False, draw=True):
        self.asked.append(launches)
        self.mhz.append(1800.0)
        return Burst(launches=launches, outside=1.0 + 0.5 * launches, inside=self.factor * 0.5 * launches, delivery=2.0)

    def audit(self):
        self.asked.append("audit")

    def trap(self, candidate, sets, launches, *, graph):
        self.asked.append(("trap", launches))

    def watch(self, candidate, sets, launches, *, graph):
        self.asked.append(("watch", launches))

    def check_red_zones(self):
        self.asked.append("zones")


@pytest.fixture
def measure(monkeypatch):
    """Measure these bursts. Each pair takes 0.1 s."""
    clock = iter(range(10_000))
    monkeypatch.setattr(isolated_timing.time, "perf_counter", lambda: 0.1 * next(clock))
    context = SimpleNamespace(sensors=SimpleNamespace(read=lambda: None))
    idle = Burst(launches=0, outside=1.0, inside=0.0, delivery=2.0)
    return lambda bursts: isolated_timing._measure_pairs(context, bursts, None, 16, graph=False, idle=idle)


@pytest.fixture
def asked(measure):
    """What is asked of the bursts until six pairs have settled."""
    bursts = Bursts()
    assert "missing" not in measure(bursts)
    return bursts.asked


def test_an_exchanged_clock_is_given_up_early(measure):
    record = measure(Bursts(factor=0.1))
    assert record["missing"]["code"] == "clocks-disagree"
    assert len(record["blocks"]) == isolated_timing.clocks.HOPELESS_PAIRS


def test_a_trap_follows_a_burst_on_the_same_values(asked):
    """After a burst of one launch, a candidate would have kept the output of one set only."""
    traps = [number for number, what in enumerate(asked) if isinstance(what, tuple) and what[0] == "trap"]
    assert traps
    for trap in traps:
        assert asked[trap - 1] == "audit"
        assert asked[trap - 2] >= asked[trap][1] == 8


def test_the_first_pair_has_a_trap_and_every_burst_an_audit(asked):
    assert ("trap", 8) in asked[:6]
    assert asked.count("audit") == sum(what in {8, 16} for what in asked[1:]) >= 2 * WINDOW_PAIRS
    assert asked[-2:] == [("watch", 1), "zones"]


def test_the_number_of_sets_grows_until_a_burst_is_long():
    assert isolated_timing._choose(Bursts(), None, batched=False) == (16, False)


@pytest.mark.parametrize(("found", "is_red"), [("", False), ("it goes on", True), (None, True), (0, True), (["a"], True)])
def test_work_on_another_stream_is_no_time(monkeypatch, found, is_red):
    """Only the word that nothing was found passes, and the launch that it was asked about has an audit."""
    bursts, audited = object.__new__(RealBursts), []
    monkeypatch.setattr(bursts, "run", lambda *_, do, **__: setattr(bursts, "_answer", {"ms": 1.0, "found": found, "do": do}))
    monkeypatch.setattr(bursts, "audit", lambda: audited.append(bursts._answer["do"]))
    if is_red:
        with pytest.raises(OutputChangedError, match="in its own process"):
            bursts.watch(None, 16, 1, graph=False)
    else:
        bursts.watch(None, 16, 1, graph=False)
    assert audited == ["watch"]


def test_a_host_that_could_not_look_is_no_pass(monkeypatch):
    bursts = object.__new__(RealBursts)
    monkeypatch.setattr(bursts, "run", lambda *_, **__: setattr(bursts, "_answer", {"ms": 1.0, "unseen": "the host is busy"}))
    monkeypatch.setattr(bursts, "audit", lambda: None)
    with pytest.raises(NotSeenError, match="in its own process, the host is busy"):
        bursts.watch(None, 16, 1, graph=False)


def test_a_trial_has_an_audit():
    """Else wrong outputs, made fast, would choose a CUDA graph and many sets for all processes."""
    bursts = Bursts()
    isolated_timing._choose(bursts, None, batched=None)
    assert bursts.asked == [4, "audit", *[1, "audit", 4, "audit"] * isolated_timing.TRIALS]


def test_what_an_earlier_process_chose_is_not_tried_again():
    bursts = Bursts()
    bursts.sizes = (16,)
    assert isolated_timing._choose(bursts, None, batched=False) == (16, False)
    assert bursts.asked == [1]


def test_a_trap_delivers_as_any_burst_of_as_many_launches(monkeypatch):
    bursts, delivered = object.__new__(RealBursts), []
    bursts._private = list(range(16))
    monkeypatch.setattr(bursts, "_change_somewhere", lambda values: (-1, "expected"))
    monkeypatch.setattr(bursts, "run", lambda *_, **__: delivered.extend(bursts._private))
    monkeypatch.setattr(bursts, "_compare", lambda expected: None)
    bursts.trap(None, 16, 8, graph=False)
    assert len(delivered) == 8
    assert delivered.count(-1) == 1
