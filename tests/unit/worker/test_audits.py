"""What the audit asks about other streams, with stand-ins for the rest."""

from types import SimpleNamespace

import pytest

from flashcore_ci.worker import audits
from flashcore_ci.worker.group import RankSubject


@pytest.fixture
def audit(monkeypatch):
    """Audit a launch for which ``found`` gives what the streams show."""

    def run(found, subject=None, launches=1):
        launcher = SimpleNamespace(launches=launches, launch="launch", again="again")
        launcher.context = SimpleNamespace(driver="driver", worst="worst")
        monkeypatch.setattr(audits.unjoined, "observe", lambda *asked: asked)
        monkeypatch.setattr(audits.unjoined, "describe", found)
        monkeypatch.setattr(audits.tensors, "refuse_changed", lambda *_: None)
        monkeypatch.setattr(audits, "replays_results", lambda *_: False)
        pool = SimpleNamespace(subject=subject or SimpleNamespace(), work=SimpleNamespace(params={}))
        pool.subject.inputs = lambda *_: {}
        pool.redzones = SimpleNamespace(overwritten=lambda: "")
        audits.audit(pool, launcher, 0.5, SimpleNamespace(first={}, inputs={}, seed=0), by_reference=False)

    return run


def test_what_is_found_is_an_output_that_changed(audit):
    with pytest.raises(audits.OutputChangedError, match="it goes on"):
        audit(lambda observed, timed: "it goes on")


def test_all_launches_of_a_graph_count(audit):
    asked = []
    audit(lambda observed, timed: asked.append((observed, timed)) or "", launches=16)
    assert asked == [(("driver", "launch", "again", "worst"), 8.0)]


def test_a_launch_of_a_group_may_wait_for_other_ranks(audit):
    asked = []
    audit(lambda observed, timed: asked.append(timed) or "", subject=object.__new__(RankSubject))
    assert asked == [float("inf")]
