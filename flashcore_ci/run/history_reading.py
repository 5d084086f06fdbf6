"""Use cases of a history that exists: list, show, export, retain and upgrade. They judge nothing, so they load little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flashcore_ci.adapters import clock
from flashcore_ci.history import address, database, export, listing, queries, writing
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.history import Standing

DIGITS = frozenset("0123456789abcdef")
DAY = 86_400
FORMATS = {"csv": export.csv_text, "openmetrics": export.openmetrics_text}


def listed(db: str, environ: Mapping[str, str], *, newest: int) -> list[str]:
    """List the newest runs."""
    with database.reading(address.parse(db, environ)) as connection:
        return [listing.run_line(run) for run in queries.runs(connection, newest=newest)]


def shown(db: str, environ: Mapping[str, str], digest: str) -> list[str]:
    """Show one run. UsageError if no run, or more than one, begins with ``digest``."""
    if not digest or not set(digest) <= DIGITS or len(digest) > 64:  # noqa: PLR2004 - SHA-256 in hex
        raise UsageError("a run is named by the start of its digest", fix="take it from `flashcore-ci history list`")
    with database.reading(address.parse(db, environ)) as connection:
        found = queries.runs(connection, digest=digest, newest=2)
        if len(found) != 1:
            raise UsageError(
                f"{'more than one run begins' if found else 'no run begins'} with {digest}", fix="flashcore-ci history list"
            )
        run = found[0]
        points = [
            (series, point)
            for series in queries.series(connection, suite=run.suite)
            for point in queries.points(connection, series.id, standings=queries.ALL, run=run.id)
        ]
        return list(listing.run_lines(run, points, queries.verdicts(connection, (run.id,))))


def ends_of_alert(db: str, environ: Mapping[str, str], key: str, workload: str | None) -> tuple[str, str, str]:
    """Return the workload of an alert, the last good commit and the first bad one: of its clearest series, or of ``workload``."""
    with database.reading(address.parse(db, environ)) as connection:
        alert = next((alert for alert in queries.alerts(connection) if alert.key == key), None)
        names = {series.id: series.workload for series in queries.series(connection)}
        parts = [part for part in (alert.series if alert else ()) if part.last_good is not None]
        parts = [part for part in parts if workload in {None, names[part.series]}]
        if not parts:
            raise UsageError(f"there is no alert {key} with a last good commit", fix="give --workload, --good and --bad")
        clearest = max(parts, key=lambda part: abs(part.log_ratio) / (part.standard_error or 1.0))
        runs = {run.id: run.commit.sha for run in queries.runs(connection, ids=(clearest.first, clearest.last_good or 0))}
    return names[clearest.series], runs[clearest.last_good or 0], runs[clearest.first]


def exported(db: str, environ: Mapping[str, str], form: str) -> Iterator[str]:
    """Yield the history in a format of ``FORMATS``."""
    with database.reading(address.parse(db, environ)) as connection:
        yield from FORMATS[form](connection)


def retain(db: str, environ: Mapping[str, str], *, days: int, protected: bool, dry_run: bool) -> int:
    """Remove runs that are older than ``days``: those that feed no detection, or with ``protected`` all. Return how many."""
    standings = tuple(Standing) if protected else (Standing.OTHER,)
    before = int(clock.wall()) - days * DAY
    url = address.parse(db, environ)
    return database.write(
        url, lambda connection: writing.retain(connection, before=before, standings=standings, dry_run=dry_run), alone=True
    )


def upgrade(db: str, environ: Mapping[str, str], to: str) -> tuple[str, str]:
    """Migrate. Return the revisions before and after."""
    return database.upgrade(address.parse(db, environ), to or database.HEAD)
