import datetime as dt
from dataclasses import replace

import pytest

from flashcore_ci.judge.alerts import judge_alerts, unreadable
from flashcore_ci.model.alerts import AlertedSeries, AlertFile, AlertState, alert_id
from flashcore_ci.model.codes import Code
from flashcore_ci.model.verdict import Outcome

DAY = dt.date(2026, 11, 22)
COMMIT = "a" * 40
SERIES = AlertedSeries(suite="s", workload="w", machine_class="m", percent=0.6, standard_error=0.07, z=8.1)
ALERT = AlertFile(
    id=alert_id(COMMIT, ("kernel",), ("w",)),
    state=AlertState.DETECTED,
    opened="2026-11-20",
    commit=COMMIT,
    last_good="b" * 40,
    series=(SERIES,),
    entries=("kernel",),
)
DECIDED = replace(ALERT, state=AlertState.ACTIVE, owner="kernels", reason="known", until="2026-12-01")


def codes(present, before=(), days=3, day=DAY, ended=frozenset()):
    return [verdict.reason.code for verdict in judge_alerts(present, before, day=day, days=days, ended=lambda: ended)]


def test_an_untriaged_alert_fails_when_it_is_too_old():
    assert codes([ALERT]) == [Code.WITHIN_LIMIT]
    (verdict,) = judge_alerts([ALERT], (), day=DAY, days=1)
    assert (verdict.outcome, verdict.reason.code, verdict.blocks) == (Outcome.FAIL, Code.UNTRIAGED_ALERT, True)
    assert "after 2 days (limit 1)" in verdict.reason.message
    assert "alerts triage" in verdict.next_step


def test_a_decision_counts_until_its_last_day():
    assert codes([DECIDED], days=0) == [Code.WITHIN_LIMIT]
    assert codes([DECIDED], days=0, day=dt.date(2026, 12, 1)) == [Code.WITHIN_LIMIT]
    assert codes([DECIDED], days=0, day=dt.date(2026, 12, 2)) == [Code.UNTRIAGED_ALERT]


@pytest.mark.parametrize(
    "changes", [{"owner": ""}, {"reason": ""}, {"until": ""}, {"until": "2030-01-01"}, {"state": AlertState.STAGED}]
)
def test_an_incomplete_decision_is_none(changes):
    assert codes([replace(DECIDED, **changes)], days=0) == [Code.UNTRIAGED_ALERT]


def test_an_alert_of_the_future_is_not_new():
    assert codes([replace(ALERT, opened="2027-01-01")]) == [Code.UNTRIAGED_ALERT]


def test_an_open_alert_of_the_base_may_not_vanish():
    assert codes([], [ALERT]) == [Code.ALERT_REMOVED]
    assert codes([], [replace(ALERT, state=AlertState.FIXED, closed="2026-11-21")]) == [Code.WITHIN_LIMIT]


@pytest.mark.parametrize(
    "changes",
    [
        {"opened": "2026-11-22"},
        {"commit": "c" * 40},
        {"series": (replace(SERIES, percent=0.01),)},
        {"entries": ()},
        {"changes": ("x",)},
    ],
)
def test_facts_of_the_base_may_not_change(changes):
    assert codes([replace(DECIDED, **changes)], [ALERT]) == [Code.ALERT_CHANGED]


def test_an_alert_may_gain_series_and_end_where_the_history_saw_it_end():
    more = replace(ALERT, series=(SERIES, replace(SERIES, workload="v")))
    ended = replace(ALERT, state=AlertState.FIXED, closed="2026-11-22")
    assert codes([more], [ALERT]) == [Code.WITHIN_LIMIT]
    assert codes([ended], [ALERT]) == [Code.ALERT_ENDED]
    assert codes([ended], [ALERT], ended={ALERT.id}) == [Code.WITHIN_LIMIT]
    assert codes([replace(ended, closed="2026-11-01")], [ALERT], ended={ALERT.id}) == [Code.ALERT_CHANGED]


def test_the_history_is_read_only_for_an_alert_that_ends():
    judge_alerts([DECIDED], [ALERT], day=DAY, days=0, ended=lambda: pytest.fail("it was read"))


def test_no_alert_is_one_passing_check_and_unreadable_files_are_inconclusive():
    assert codes([]) == [Code.WITHIN_LIMIT]
    verdict = unreadable("gates/alerts/x.toml: not valid TOML")
    assert (verdict.outcome, verdict.reason.code) == (Outcome.INCONCLUSIVE, Code.ALERTS_UNREADABLE)
