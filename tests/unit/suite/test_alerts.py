from dataclasses import replace
from pathlib import Path

import pytest

from flashcore_ci.model.alerts import AlertedSeries, AlertFile, AlertState, alert_id
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.suite.alerts import read_alerts, text_of, write_alert

COMMIT = "a" * 40
ALERT = AlertFile(
    id=alert_id(COMMIT, ("kernel",), ("w",)),
    state=AlertState.DETECTED,
    opened="2026-11-20",
    commit=COMMIT,
    last_good="b" * 40,
    series=(AlertedSeries(suite="s", workload="w", machine_class="m", percent=0.6, standard_error=0.07, z=8.1),),
    entries=("kernel",),
    changes=('kernel: 152 to 168 registers, opcodes "FFMA" +3 \\ 1',),
    evidence=("c" * 64,),
)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return tmp_path / "hopper.toml"


def put(suite, text, name=f"{ALERT.id}.toml"):
    folder = suite.parent / "alerts"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def problem(suite):
    with pytest.raises(SuiteError) as caught:
        read_alerts(suite)
    return str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"state": AlertState.ACTIVE, "owner": "kernels", "reason": 'a "reason"', "until": "2026-12-01"},
        {"state": AlertState.FIXED, "closed": "2026-11-22"},
    ],
)
def test_an_alert_is_read_as_it_was_written(suite, changes):
    alert = replace(ALERT, **changes)
    assert write_alert(suite, alert) == suite.parent / f"alerts/{ALERT.id}.toml"
    assert read_alerts(suite) == (alert,)


def test_what_was_written_of_many_series_can_be_read(suite):
    many = tuple(replace(ALERT.series[0], workload=f"w{number}") for number in range(300))
    write_alert(suite, replace(ALERT, series=many))
    assert read_alerts(suite)[0].series == many[:200]


def test_no_folder_is_no_alert(suite):
    assert read_alerts(suite) == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('state = "detected"', 'state = "gone"', "state"),
        ('state = "detected"', 'state = "active"', 'an alert that is "active" has an owner'),
        ('state = "detected"', 'state = "fixed"', "the day on which it ended"),
        ("opened = 2026-11-20", 'opened = "soon"', "opened"),
        ("percent = 0.6000", "percent = nan", "percent"),
        ("entries = [", "entires = [", "entires"),
        (COMMIT, "d" * 40, "the id begins with another commit"),
        ("[[series]]", "[[serie]]", "serie"),
    ],
)
def test_a_mistake_is_named_with_its_file(suite, old, new, message):
    text = text_of(ALERT)
    assert old in text
    put(suite, text.replace(old, new))
    found = problem(suite)
    assert message in found
    assert ALERT.id in found


def test_another_file_name_a_link_and_too_many_files_are_refused(suite):
    put(suite, text_of(ALERT), "other.toml")
    assert f"is called {ALERT.id}.toml" in problem(suite)
    (suite.parent / "alerts/other.toml").unlink()
    put(suite, text_of(ALERT), "kept")
    (suite.parent / f"alerts/{ALERT.id}.toml").symlink_to("kept")
    assert "a link is not an alert" in problem(suite)


def test_no_file_is_written_beyond_the_most_that_are_read(suite, monkeypatch):
    monkeypatch.setattr("flashcore_ci.suite.alerts.MAX_FILES", 1)
    write_alert(suite, ALERT)
    write_alert(suite, replace(ALERT, state=AlertState.STAGED))
    with pytest.raises(SuiteError, match="may hold 1 files, not 2"):
        write_alert(suite, replace(ALERT, id=alert_id(COMMIT, ("other",), ())))
    assert [alert.state for alert in read_alerts(suite)] == [AlertState.STAGED]


def test_text_from_outside_stays_in_its_line(suite):
    alert = replace(ALERT, changes=('x\nstate = "fixed"\x1b[31m\u202e',))
    write_alert(suite, alert)
    (read,) = read_alerts(suite)
    assert read.state is AlertState.DETECTED
    assert "\n" not in read.changes[0]
    assert "\x1b" not in read.changes[0]
    assert "\u202e" not in read.changes[0]
