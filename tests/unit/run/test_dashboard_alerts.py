from dataclasses import replace
from types import SimpleNamespace

from dashboards import DAY, NOW, run_of, snapshot

from flashcore_ci.run import dashboard_alerts


def alert(**changes):
    series = SimpleNamespace(
        suite="hopper", workload="prefill-1", machine_class="NVIDIA H200, sm_90", percent=3.0, standard_error=0.04
    )
    values = {
        "id": "abc-1",
        "state": "active",
        "opened": "2026-11-15",
        "commit": run_of(55).commit.sha,
        "series": (series,),
        "changes": ("registers 160 to 168", "ptxas 13.0 to 13.5"),
        "owner": "ann",
        "reason": "",
        "until": "",
        "closed": "",
    }
    return SimpleNamespace(**{**values, **changes})


def test_an_alert_of_a_file_is_placed_at_the_first_run_of_its_commit():
    made = snapshot()
    view = dashboard_alerts.of_file(alert(), made.lines, made.runs)
    (part,) = view.parts
    assert (part.line, part.first) == (made.lines[0].key, 55)
    assert abs(part.log_ratio - 0.029559) < 1e-6
    assert abs(part.error - 0.0004) < 1e-12
    assert (view.opened_at - NOW) // DAY == -4
    assert (view.closed_at, view.note) == (None, "registers 160 to 168, ptxas 13.0 to 13.5")


def test_an_alert_of_an_unknown_commit_or_workload_is_still_listed():
    made = snapshot()
    assert dashboard_alerts.of_file(alert(commit="f" * 40), made.lines, made.runs).parts == ()
    other = SimpleNamespace(suite="hopper", workload="gone", machine_class="x", percent=-200.0, standard_error=0.0)
    assert dashboard_alerts.of_file(alert(series=(other,), closed="2026-11-16"), made.lines, made.runs).closed_at is not None


def test_there_are_no_alerts_without_a_suite(tmp_path):
    assert dashboard_alerts.files(tmp_path / "none.toml") == ()


def test_an_alert_of_the_database_and_of_a_file_is_one_with_the_files_decision():
    made = snapshot()
    stored = dashboard_alerts.of_file(alert(state="detected", owner=""), made.lines, made.runs)
    other = replace(stored, key="def-2")
    filed = dashboard_alerts.of_file(alert(commit="f" * 40), made.lines, made.runs)
    assert dashboard_alerts.join([stored, other], [filed]) == [other, replace(filed, parts=stored.parts)]
    assert dashboard_alerts.join([stored], []) == [stored]
