"""What the audit asks about other streams, and how far a launch may be off its reference, with stand-ins for the rest."""

import math
from types import SimpleNamespace

import pytest

from flashcore_ci.worker import audits
from flashcore_ci.worker.group import RankSubject


@pytest.fixture
def audit(monkeypatch):
    """Audit a launch for which ``found`` gives what the streams show."""

    def run(found, subject=None, launches=1, start=0.0, ms=0.5):
        launcher = SimpleNamespace(launches=launches, submitted=3 * launches // 2, start=start, launch="launch", again="again")
        launcher.context = SimpleNamespace(driver="driver", worst="worst")
        monkeypatch.setattr(audits.unjoined, "observe", lambda *asked: asked)
        monkeypatch.setattr(audits.unjoined, "describe", found)
        monkeypatch.setattr(audits.tensors, "refuse_changed", lambda *_: None)
        monkeypatch.setattr(audits, "replays_results", lambda *_: False)
        pool = SimpleNamespace(subject=subject or SimpleNamespace(), work=SimpleNamespace(params={}))
        pool.subject.inputs = lambda *_: {}
        pool.redzones = SimpleNamespace(overwritten=lambda: "")
        audits.audit(pool, launcher, ms, 1980.0, SimpleNamespace(first={}, inputs={}, seed=0), by_reference=False)

    return run


def test_what_is_found_is_an_output_that_changed(audit):
    with pytest.raises(audits.OutputChangedError, match="it goes on"):
        audit(lambda *_: "it goes on")


def test_all_launches_of_a_graph_and_its_start_count(audit):
    asked = []
    audit(lambda *given: asked.append(given) or "", launches=16, start=0.25)
    assert asked == [(("driver", "launch", "again", "worst"), 8.25, 1980.0)]


@pytest.mark.parametrize(
    ("launches", "ms", "start", "found"),
    [
        (41, 0.0027, 0.013, ""),
        (41, 0.0027, 0.031, "31 µs to start, more than 30"),  # launches of the shorter graph that are slow on purpose
        (16, 0.045, 0.05, ""),  # the first launches on a cold GPU are slower
        (16, 0.045, 0.06, "60 µs to start, more than 54"),
        (41, 1e-6, 0.013, "takes no longer"),
    ],
)
def test_launches_of_the_shorter_graph_must_be_like_those_of_the_longer_one(audit, launches, ms, start, found):
    if not found:
        audit(lambda *_: "", launches=launches, start=start, ms=ms)
        return
    with pytest.raises((audits.OutputChangedError, audits.UnlikeGraphsError), match=found):
        audit(lambda *_: "", launches=launches, start=start, ms=ms)


def test_a_launch_of_a_group_may_wait_for_other_ranks(audit):
    asked = []
    audit(lambda observed, timed, mhz: asked.append(timed) or "", subject=object.__new__(RankSubject))
    assert asked == [float("inf")]


@pytest.fixture
def far_off(monkeypatch):
    """Audit an output of 1 + ``error`` whose reference is off by ``own`` in its inputs' type, and not in float64."""

    def run(error, own):
        monkeypatch.setattr(audits.tensors, "upcast", lambda _: None)
        monkeypatch.setattr(audits.tensors, "mean_error", lambda x, y: abs(x - y) / abs(y))
        subject = SimpleNamespace(reference=lambda given: {"o": 1.0 if given is None else 1.0 + own})
        return audits.is_far_off(subject, {"x": 0}, {"o": 1.0 + error})

    return run


@pytest.mark.parametrize(
    ("error", "own", "far"),
    [
        (0.01, 0.0, False),
        (0.03, 0.0, True),
        (0.03, 0.027, False),  # E4M3: exact sums of rounded probabilities are as far
        (0.05, 0.02, True),
        (math.nan, 0.02, True),
        (0.03, math.inf, True),  # a reference that overflowed allows nothing
        (0.03, math.nan, True),
        (0.06, 1.0, False),
        (0.07, 1.0, True),  # a reference that is wrong by far allows no more than E4M3 costs
        (-1.0, 0.027, True),  # zeros
    ],
)
def test_a_timed_launch_may_be_twice_as_far_as_its_reference(far_off, error, own, far):
    assert far_off(error, own) is far
