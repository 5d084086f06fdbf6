"""A change silences an alert that nobody decided about: it removes the file, rewrites what was found, or decides for ever."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.judge import alerts as judging
from flashcore_ci.model.alerts import AlertedSeries, AlertFile, AlertState, alert_id
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.verdict import Outcome
from flashcore_ci.suite import alerts as files

DAY = dt.date(2026, 11, 22)
COMMIT = "a" * 40
SERIES = AlertedSeries(suite="s", workload="w", machine_class="m", percent=0.6, standard_error=0.07, z=8.1)
ALERT = AlertFile(
    id=alert_id(COMMIT, ("kernel",), ("w",)),
    state=AlertState.DETECTED,
    opened="2026-11-01",
    commit=COMMIT,
    last_good="b" * 40,
    series=(SERIES,),
    entries=("kernel",),
)
DECISION = {"state": AlertState.IGNORED, "owner": "kernels", "reason": "no", "until": "2026-12-01"}


def is_fooled(suite: Path) -> bool:
    """Judge the files of head against those of the base."""
    try:
        verdicts = judging.judge_alerts(files.read_alerts(suite), (ALERT,), day=DAY, days=3)
    except SuiteError:
        return False
    return all(verdict.outcome is Outcome.PASS for verdict in verdicts)


def attack(name: str, **changes: object) -> Attack:
    """Head has the alert with these changes."""

    def attempt(folder: Path) -> bool:
        files.write_alert(folder / "x.toml", replace(ALERT, **changes))  # type: ignore[arg-type]
        return is_fooled(folder / "x.toml")

    return Attack(name=name, attempt=attempt)


def other_name(folder: Path) -> bool:
    file = files.write_alert(folder / "x.toml", replace(ALERT, opened="2026-11-22"))
    file.rename(file.with_suffix(".txt"))
    return is_fooled(folder / "x.toml")


def member(source: random.Random) -> Attack:
    """Change a random fact next to a decision that would count, or leave out a part of the decision."""
    facts = {
        "opened": f"2026-11-{source.randint(2, 30):02}",
        "last_good": f"{source.getrandbits(160):040x}",
        "series": (replace(SERIES, percent=source.uniform(0.0, 0.5)),),
        "entries": (f"kernel_{source.random()}",),
        "changes": (f"line {source.random()}",),
        "evidence": (f"{source.getrandbits(256):064x}",),
    }
    parts = {"owner": "", "reason": "", "until": (DAY + dt.timedelta(days=source.choice([-1, -300, 93, 3000]))).isoformat()}
    fact, part = source.choice(sorted(facts)), source.choice(sorted(parts))
    changes = {fact: facts[fact]} if source.random() < 0.5 else {part: parts[part]}
    return attack(f"{changes}", **{**DECISION, **changes})


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every file for what it says."""
    monkeypatch.setattr(judging, "_tampered", lambda *_: None)
    monkeypatch.setattr(AlertFile, "is_decided", lambda _self, _day: True)
    monkeypatch.setattr(files, "_check", lambda _problems, _table, _name: None)


CLASS = AttackClass(
    name="an alert is silenced",
    attacks=(
        Attack(name="the file is removed", attempt=lambda folder: is_fooled(folder / "x.toml")),
        Attack(name="the file has another ending", attempt=other_name),
        attack("found today", opened="2026-11-22"),
        attack("found tomorrow", opened="2026-11-23", **DECISION),
        attack("ignored without an owner", **{**DECISION, "owner": ""}),
        attack("ignored by blanks", **{**DECISION, "owner": " ", "reason": "\u2003"}),
        attack("ignored for ever", **{**DECISION, "until": "2999-01-01"}),
        attack("ignored until yesterday", **{**DECISION, "until": "2026-11-21"}),
        attack("a smaller slowdown", series=(replace(SERIES, percent=0.01),), **DECISION),
        attack("another workload", series=(replace(SERIES, workload="v"),), **DECISION),
        attack("fixed before it was found", state=AlertState.FIXED, closed="2026-10-01"),
        attack("fixed without a day", state=AlertState.FIXED),
        attack("fixed by hand", state=AlertState.FIXED, closed="2026-11-22"),
        attack("fixed by hand with a decision", **{**DECISION, "state": AlertState.FIXED, "closed": "2026-11-22"}),
        attack("looked at for weeks", state=AlertState.STAGED, owner="kernels", reason="soon", until="2026-12-01"),
    ),
    member=member,
    mutant=mutant,
)
