"""Read and write alerts: ``alerts/ID.toml`` next to the suite."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from flashcore_ci.model.alerts import DECIDED, AlertedSeries, AlertFile, AlertState
from flashcore_ci.model.errors import CannotCollectError, SuiteError, UsageError
from flashcore_ci.suite.loader import parse, read_document
from flashcore_ci.suite.problems import Problems
from flashcore_ci.suite.tables import Finite, Table, Text

FOLDER = "alerts"
MAX_FILES = 500
MAX_LIST = 200
FIX = "correct the file, or restore it from git"
Short = Annotated[str, StringConstraints(max_length=1_000)]
HASH = r"^([0-9a-f]{40}|[0-9a-f]{64})$"
Commit = Annotated[str, StringConstraints(pattern=HASH)]
Lines = Annotated[list[Short], Field(max_length=MAX_LIST)]


class SeriesTable(Table):
    """``[[series]]``: a workload that became slower."""

    suite: Text
    workload: Text
    machine_class: str
    percent: Finite
    standard_error: Finite
    z: Finite


class AlertTable(Table):
    """The file. Days are TOML dates."""

    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{7,12}-[0-9a-f]{8}$")]
    state: AlertState
    opened: dt.date
    commit: Commit
    last_good: Commit | Annotated[str, StringConstraints(pattern="^$")] = ""
    owner: Short = ""
    reason: Short = ""
    until: dt.date | None = None
    closed: dt.date | None = None
    entries: Lines
    changes: Lines
    evidence: Lines
    series: Annotated[list[SeriesTable], Field(min_length=1, max_length=MAX_LIST)]


def folder_of(suite: Path) -> Path:
    """Return the folder of the suite's alerts."""
    return suite.parent / FOLDER


def read_alerts(suite: Path) -> tuple[AlertFile, ...]:
    """Read all alerts next to ``suite``, by id. SuiteError lists every problem of the first bad file."""
    folder = folder_of(suite)
    if folder.is_symlink():
        raise SuiteError((f"{folder}: a link holds no alerts",), fix="replace it with a folder")
    files = sorted(folder.glob("*.toml"))
    if len(files) > MAX_FILES:
        raise _too_many(folder, len(files))
    for file in files:
        if file.is_symlink():
            raise SuiteError((f"{file}: a link is not an alert",), fix="replace it with a plain file")
    return tuple(_alert(read_document(file), file.name, str(file)) for file in files)


def _too_many(folder: Path, count: int) -> SuiteError:
    return SuiteError((f"{folder} may hold {MAX_FILES} files, not {count}",), fix="remove old alerts that are fixed")


def ends_of(suite: Path, start: str, workload: str | None) -> tuple[str, str, str] | None:
    """Return the clearest workload of an alert, its last good commit and first bad one. None without such a file."""
    found = [alert for alert in read_alerts(suite) if start and alert.id.startswith(start)]
    if len(found) > 1:
        raise UsageError(f"{len(found)} alerts begin with {start}", fix=f"give one of them, as {found[0].id}")
    if not found:
        return None
    (alert,) = found
    parts = [part for part in alert.series if workload in {None, part.workload}]
    if not parts or not alert.last_good:
        absent = "a last good commit" if parts else f"the workload {workload}"
        raise UsageError(f"the alert {alert.id} does not name {absent}", fix="give --workload, --good and --bad")
    clearest = max(parts, key=lambda part: abs(part.percent) / (part.standard_error or 1.0))
    return clearest.workload, alert.last_good, alert.commit


def parse_alert(text: str, name: str) -> AlertFile:
    """Read an alert of another commit. SuiteError if it is not one."""
    return _alert(parse(text, name), name, name)


def _alert(document: dict[str, object], name: str, shown: str) -> AlertFile:
    problems = Problems(shown)
    table = problems.read(AlertTable, document, "")
    if table is not None:
        _check(problems, table, name)
    if table is None or problems.lines:
        raise SuiteError(tuple(problems.lines), fix=FIX)
    days: dict[str, Any] = {
        key: day.isoformat() if day else "" for key, day in (("until", table.until), ("closed", table.closed))
    }
    lists: dict[str, Any] = {key: tuple(getattr(table, key)) for key in ("entries", "changes", "evidence")}
    texts: dict[str, Any] = {key: getattr(table, key) for key in ("id", "state", "commit", "last_good", "owner", "reason")}
    series = tuple(AlertedSeries(**each.model_dump()) for each in table.series)
    return AlertFile(**texts, **days, **lists, opened=table.opened.isoformat(), series=series)


def _check(problems: Problems, table: AlertTable, name: str) -> None:
    if name != f"{table.id}.toml":
        problems.add("id", f'the file of "{table.id}" is called {table.id}.toml')
    if not table.commit.startswith(table.id.split("-")[0]):
        problems.add("commit", "the id begins with another commit")
    if table.state in DECIDED:
        for key in ("owner", "reason"):
            if not any(character.isalnum() for character in getattr(table, key)):
                problems.add(
                    key, f'an alert that is "{table.state}" has an {key}' if key == "owner" else f'"{table.state}" needs a reason'
                )
        if table.until is None:
            problems.add("until", f'"{table.state}" needs the last day of this decision')
    if (table.closed is not None) != (table.state is AlertState.FIXED):
        problems.add("closed", "an alert has the day on which it ended exactly if it is fixed")


def write_alert(suite: Path, alert: AlertFile) -> Path:
    """Write the file of an alert. CannotCollectError if it cannot be written, SuiteError if there are too many."""
    file = folder_of(suite) / f"{alert.id}.toml"
    if not file.exists() and (count := len(list(file.parent.glob("*.toml")))) >= MAX_FILES:
        raise _too_many(file.parent, count + 1)
    try:
        file.parent.mkdir(exist_ok=True)
        temporary = file.with_suffix(".tmp")
        temporary.unlink(missing_ok=True)  # it may be a pipe, or another name of a file that is not ours
        with temporary.open("x", encoding="utf-8") as stream:
            stream.write(text_of(alert))
        temporary.replace(file)
    except OSError as error:
        raise CannotCollectError(f"cannot write {file}: {error.strerror}", fix="make the folder writable") from None
    return file


def text_of(alert: AlertFile) -> str:
    """Write an alert as TOML."""
    lines = [f"{key} = {_quoted(getattr(alert, key))}" for key in ("id", "state")]
    lines += [f"opened = {alert.opened}", *(f"{key} = {day}" for key in ("until", "closed") if (day := getattr(alert, key)))]
    lines += [f"{key} = {_quoted(text)}" for key in ("commit", "last_good", "owner", "reason") if (text := getattr(alert, key))]
    for key in ("entries", "changes", "evidence"):
        lines += [f"{key} = [", *(f"  {_quoted(value)}," for value in getattr(alert, key)[:MAX_LIST]), "]"]
    for each in alert.series[:MAX_LIST]:
        texts = ((key, _quoted(getattr(each, key))) for key in ("suite", "workload", "machine_class"))
        numbers = ((key, f"{getattr(each, key):.4f}") for key in ("percent", "standard_error", "z"))
        lines += ["", "[[series]]", *_assign(texts), *_assign(numbers)]
    return "\n".join(lines) + "\n"


def _assign(pairs: Iterable[tuple[str, str]]) -> Iterable[str]:
    return (f"{key} = {value}" for key, value in pairs)


def _quoted(value: str) -> str:
    """Quote printable text in one line. JSON's escapes of what remains are TOML's."""
    return json.dumps("".join(c for c in " ".join(value.split()) if c.isprintable())[:1_000], ensure_ascii=False)
