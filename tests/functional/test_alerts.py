"""Alerts from the history to the required check, in a repository of their own."""

from __future__ import annotations

import datetime as dt
import json
import random
import sqlite3
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from history_factories import made_run, migrated_url_of
from report_factories import make_report

from flashcore_ci.cli import main
from flashcore_ci.history import address, alerting, database, queries, writing
from flashcore_ci.model.alerts import AlertedSeries, AlertFile, AlertState, alert_id
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.history import Alert, Anchor
from flashcore_ci.report import junit
from flashcore_ci.run import alerts, history_reading, triage
from flashcore_ci.run.request import Request
from flashcore_ci.suite.alerts import read_alerts, write_alert

SCATTER = 0.0005
NAME = "made up"


class World:
    """A history of two series with an anchor, and the folder of its suite."""

    def __init__(self, folder):
        self.url, self.suite, self.random, self.runs = migrated_url_of(folder), folder / "gates/x.toml", random.Random(3), 0
        self.suite.parent.mkdir()
        self.suite.touch()

    def add(self, *levels, version=None, rounds=5, registers=None, driver="580", uuid="GPU-0"):
        """Add a run whose series have these log ratios. Its code is ``version``, by default new."""
        number, self.runs = self.runs, self.runs + 1
        version = number + 1 if version is None else version
        run = made_run(number, series=len(levels), version=version)
        points = [self._point(point, level, rounds, registers) for point, level in zip(run.points, levels, strict=True)]
        points = [replace(point, epoch={**point.epoch, "driver": driver}) for point in points]
        run = replace(run, points=tuple(points), machine={**run.machine, "uuid": uuid})
        database.write(address.parse(self.url, {}), lambda connection: writing.add_run(connection, run))
        return version

    def _point(self, point, level, rounds, registers):
        ((base, ratio),) = point.ratios
        drawn = {"log_ratio": level + self.random.gauss(0.0, SCATTER / rounds**0.5), "standard_error": SCATTER / rounds**0.5}
        entries = tuple({**entry, "registers": registers or 152} for entry in point.entries)
        return replace(point, ratios=((base, {**ratio, **drawn, "df": rounds - 1.0, "rounds": rounds}),), entries=entries)

    def pin(self):
        with database.reading(address.parse(self.url, {})) as connection:
            found = queries.series(connection)
            first = [queries.points(connection, series.id)[0] for series in found]
        for series, point in zip(found, first, strict=True):
            values = {name: getattr(series, name) for name in ("suite", "workload", "question")}
            anchor = Anchor(**values, id=0, code=point.ratios[0].base, commit="a" * 40, since=1, reason="pinned")
            database.write(address.parse(self.url, {}), lambda connection, anchor=anchor: writing.add_anchor(connection, anchor))

    def update(self):
        return alerts.update(self.url, {}, self.suite, name=NAME)


@pytest.fixture(scope="module")
def slowed(tmp_path_factory):
    """20 quiet runs, then one series is 1 % slower, and the suspicion is met."""
    world = World(tmp_path_factory.mktemp("alerts"))
    for _ in range(20):
        world.add(0.0, 0.0)
    world.pin()
    version = world.add(0.01, 0.0, registers=168)
    suspicion = world.update()
    world.add(0.01, 0.0, version=version, rounds=3, registers=168)
    return world, suspicion, world.update()


def test_a_suspicion_asks_for_more_rounds_and_is_no_alert(slowed):
    _, suspicion, _ = slowed
    assert suspicion.opened == ()
    assert [(workload[-2:], rounds) for workload, _, rounds in suspicion.again] == [("-0", 3)]
    assert suspicion.lines[0].startswith("measure again: prefill")


def test_an_alert_says_what_became_slower_and_what_else_changed(slowed):
    world, _, update = slowed
    (alert,) = read_alerts(world.suite)
    assert update.opened == (alert.id,)
    assert alert.entries == ("kernel_0",)
    assert [each.workload[-2:] for each in alert.series] == ["-0"]
    assert alert.percent == pytest.approx(1.0, abs=0.15)
    assert any("kernel_0: 152 to 168 registers" in line for line in alert.changes)
    assert len(alert.evidence) == 2
    with database.reading(address.parse(world.url, {})) as connection:
        (stored,) = queries.alerts(connection)
    assert (stored.key, stored.state) == (alert.id, "detected")


def test_a_second_update_opens_nothing_and_keeps_decisions(slowed):
    world, _, update = slowed
    until = triage.today_utc().isoformat()
    triage.triage(world.suite, update.opened[0][:8], state=AlertState.ACTIVE, owner="kernels", reason="known", until=until)
    again = world.update()
    assert (again.opened, again.open) == ((), update.opened)
    assert read_alerts(world.suite)[0].owner == "kernels"


def test_an_alert_ends_when_the_slowdown_is_gone_and_opens_again_if_it_was_ended_by_hand(slowed):
    world, _, update = slowed
    (alert,) = read_alerts(world.suite)
    (world.suite.parent / f"alerts/{alert.id}.toml").write_text(
        (world.suite.parent / f"alerts/{alert.id}.toml")
        .read_text()
        .replace('state = "active"', 'state = "fixed"\nclosed = 2026-11-22'),
        encoding="utf-8",
    )
    assert world.update().open == update.opened
    assert read_alerts(world.suite)[0].state is AlertState.DETECTED
    version = world.add(0.0, 0.0)
    world.add(0.0, 0.0, version=version, rounds=3)
    assert world.update().closed == update.opened
    (fixed,) = read_alerts(world.suite)
    assert fixed.state is AlertState.FIXED
    assert triage.listed(world.suite, everything=False) == ()
    with pytest.raises(UsageError, match="is fixed"):
        triage.triage(world.suite, fixed.id, state=AlertState.STAGED, owner="", reason="", until="")


def test_a_level_in_the_middle_opens_no_alert_that_is_fixed(slowed):
    world, _, _ = slowed
    for level in (0.005, 0.0):
        world.add(level, 0.0)
        assert world.update().open == ()


@pytest.fixture
def opened(tmp_path):
    """An alert of one series, that somebody decided about."""
    world = World(tmp_path)
    for _ in range(20):
        world.add(0.0, 0.0)
    world.pin()
    version = world.add(0.01, 0.0)
    world.add(0.01, 0.0, version=version, rounds=3)
    (world.alert,) = world.update().opened
    return world


@pytest.mark.parametrize("later", [{"driver": "590"}, {"uuid": "GPU-1"}])
def test_an_alert_ends_in_another_epoch(opened, later):
    opened.add(0.01, 0.0, **later)
    assert opened.update().open == (opened.alert,)
    opened.add(0.0, 0.0, **later)
    assert opened.update().closed == (opened.alert,)


@pytest.mark.parametrize("change", ["retain", "grow", "lose"])
def test_an_alert_that_is_not_found_any_more_is_still_judged(opened, monkeypatch, change):
    if change == "retain":
        assert history_reading.retain(opened.url, {}, days=30, protected=True, dry_run=False) == 20
    else:
        monkeypatch.setattr(alerting, "rate_of", lambda series: 1e-300)
    if change == "lose":
        with sqlite3.connect(opened.suite.parents[1] / "history.db") as plain:
            plain.executescript("DELETE FROM alert_series; DELETE FROM alerts")
    assert opened.update().lines[0].startswith(f"open: {opened.alert}")
    opened.add(0.0, 0.0)
    assert opened.update().closed == (opened.alert,)
    assert read_alerts(opened.suite)[0].state is AlertState.FIXED


def test_an_open_alert_of_another_history_is_named(opened, tmp_path):
    (tmp_path / "other").mkdir()
    opened.url = migrated_url_of(tmp_path / "other")
    assert opened.update().lines[0].startswith(f"open, and not found in this history: {opened.alert}")
    assert alerts.update(opened.url, {}, opened.suite, name="another suite").lines == ("nothing was found",)


def reviewed(folder, commit):
    """Update from reviewed runs without positions of one series on two classes of machines, which became slower."""
    world = World(folder)
    for number in range(80):
        run = made_run(number % 40, series=1, version=number % 40)
        where, own = {"machine_class": f"class {number // 40}"}, {"megacycles": 1.05 if number % 40 >= 20 else 1.0}
        points = tuple(replace(p, series={**p.series, **where}, own={**p.own, **own}, ratios=()) for p in run.points)
        when = {"standing": "unsigned, reviewed", "digest": bytes([number]) * 32, "collected_at": 10**9 + 600 * number}
        run = replace(run, points=points, run={**run.run, **when}, commit={**run.commit, "position": None, **commit})
        run = replace(run, machine={**run.machine, **where, "uuid": "GPU-0"})
        database.write(address.parse(world.url, {}), lambda connection, run=run: writing.add_run(connection, run))
    return world, alerts.update(world.url, {}, world.suite, name=NAME, reviewed=True)


def test_one_change_on_two_classes_of_machines_is_one_alert(tmp_path):
    world, update = reviewed(tmp_path, {})
    assert [each.machine_class for each in read_alerts(world.suite)[0].series] == ["class 0", "class 1"]
    with database.reading(address.parse(world.url, {})) as connection:
        assert [(row.key, len(row.series)) for row in queries.alerts(connection)] == [(update.opened[0], 2)]


def test_no_file_is_written_that_nothing_can_read(tmp_path):
    world, update = reviewed(tmp_path, {"sha": ""})
    assert "names no commit" in update.lines[0]
    assert read_alerts(world.suite) == ()


@pytest.mark.parametrize("start", ["", "zz"])
def test_a_decision_needs_an_alert(slowed, start):
    with pytest.raises(UsageError, match="no alert begins"):
        triage.triage(slowed[0].suite, start, state=AlertState.STAGED, owner="", reason="", until="")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository whose base has an alert that is ten days old."""
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet", "--initial-branch=main")
    opened = (triage.today_utc() - dt.timedelta(days=10)).isoformat()
    series = AlertedSeries(suite="s", workload="w", machine_class="m", percent=0.6, standard_error=0.07, z=8.1)
    alert = AlertFile(
        id=alert_id("a" * 40, ("kernel",), ()),
        state=AlertState.DETECTED,
        opened=opened,
        commit="a" * 40,
        last_good="",
        series=(series,),
    )
    Path("gates").mkdir()
    write_alert(Path("gates/x.toml"), alert)
    git("add", "gates")
    git("commit", "--quiet", "--message=an alert")
    return alert


def git(*arguments):
    argv = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false", *arguments]
    return subprocess.run(argv, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def judged(days, base=None, db=None):
    request = Request(suite=Path("gates/x.toml"), out=Path("out"), environ={}, untriaged_days=days, base=base, db=db)
    return triage.verdicts(request, as_of=f"{triage.today_utc()}T08:00:00Z")


def test_the_gate_judges_the_files_of_the_checkout_and_of_the_base(checkout):
    assert judged(None) == ()
    assert [v.reason.code for v in judged(3)] == [Code.UNTRIAGED_ALERT]
    assert [v.reason.code for v in judged(30, git("rev-parse", "HEAD"))] == [Code.WITHIN_LIMIT]
    file = Path(f"gates/alerts/{checkout.id}.toml")
    text = file.read_text()
    file.unlink()
    assert [v.reason.code for v in judged(3)] == [Code.WITHIN_LIMIT]
    assert [v.reason.code for v in judged(30, git("rev-parse", "HEAD"))] == [Code.ALERT_REMOVED]
    file.write_text(text.replace("state", "sate"))
    assert [v.reason.code for v in judged(30)] == [Code.ALERTS_UNREADABLE]


def test_a_change_ends_an_alert_only_where_the_history_saw_it_end(checkout, tmp_path):
    head = git("rev-parse", "HEAD")
    write_alert(Path("gates/x.toml"), replace(checkout, state=AlertState.FIXED, closed=f"{triage.today_utc()}"))
    assert [v.reason.code for v in judged(30, head)] == [Code.ALERT_ENDED]
    url = migrated_url_of(tmp_path)
    assert [v.reason.code for v in judged(30, head, url)] == [Code.ALERT_ENDED]
    for state, code in ((AlertState.VERIFY, Code.ALERT_ENDED), (AlertState.FIXED, Code.WITHIN_LIMIT)):
        stored = Alert(key=checkout.id, state=state, opened_at=1, closed_at=2, owner="", reason="", until="", series=())
        database.write(address.parse(url, {}), lambda connection, stored=stored: writing.put_alert(connection, stored))
        assert [v.reason.code for v in judged(30, head, url)] == [code]
    with pytest.raises(UsageError, match="there is no history"):
        judged(30, head, "sqlite:///none.db")


def test_an_alert_is_a_testcase_with_its_code_and_next_step(checkout):
    verdicts = judged(3)
    text = junit.render(make_report(verdicts=verdicts))
    case = next(element for element in ET.fromstring(text).iter("testcase") if element.get("name") == checkout.id)
    (failure,) = case.findall("failure")
    assert failure.get("type") == "untriaged-alert"
    assert "next: This slowdown has no decision." in failure.text


def test_the_command_lists_and_decides_in_words_and_as_json(checkout, capsys):
    Path("gates/x.toml").touch()
    suite = ["--suite", "gates/x.toml"]
    assert main.run(["alerts", "list", "--suite", "gates/y.toml"]) == 3
    assert main.run(["alerts", "list", *suite]) == 0
    assert "nobody yet" in capsys.readouterr().out
    assert main.run(["alerts", "triage", checkout.id, "--state", "ignored", *suite]) == 2
    assert "is not a complete decision" in capsys.readouterr().err
    until = (triage.today_utc() + dt.timedelta(days=5)).isoformat()
    decision = ["--state", "ignored", "--owner", "kernels", "--reason", "a faster driver follows", "--until", until]
    assert main.run(["alerts", "triage", checkout.id, *decision, *suite, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["alert"]["state"] == "ignored"
    assert [v.reason.code for v in judged(0, git("rev-parse", "HEAD"))] == [Code.WITHIN_LIMIT]
    assert main.run(["alerts", "list", *suite, "--json"]) == 0
    assert [alert["owner"] for alert in json.loads(capsys.readouterr().out)["alerts"]] == ["kernels"]
