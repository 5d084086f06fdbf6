"""Fill a history with made-up runs, and measure its size, one insert and the reading of a series.

``python tools/study/history_size.py --runs 100000 --series 20`` writes the table of docs/history.md. Every number is drawn from a
seed, and ``--changes`` says how many of 100 commits change the code of every workload.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, select

from flashcore_ci.history import address, database, queries, writing
from flashcore_ci.history import tables as t
from flashcore_ci.history.measured import PointRows
from flashcore_ci.history.packing import SINGLE, pack
from flashcore_ci.history.rows import RunRows

PROFILE = ("sol/sm", "sol/dram", "sol/tensor", "sol/xu", "cycles/sm", "time/gpu/profiled", "launches/call")
TIMING = ("std/within", "power/gpu", "temperature/gpu")
CORRECTNESS = ("diff/max", "error/ratio", "finite/bad-values", "repeat/differing-runs")
SANITIZER = tuple(
    f"{tool}/{what}" for tool in ("memcheck", "racecheck", "synccheck", "initcheck") for what in ("findings", "launches")
)
START = 1_700_000_000
OPCODES = '[["BAR",12],["FADD",310],["FFMA",840],["HGMMA",256],["LDS",96],["MUFU",420],["STS",64],["UTMALDG",18]]'


def hexadecimal(*parts: object) -> str:
    """Return a digest of the parts."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def made_run(number: int, *, series: int, version: int, standing: str = "protected") -> RunRows:
    """Make run ``number``, whose code is ``version``. Equal arguments give equal rows."""
    drawn = random.Random(number)  # noqa: S311 - made-up numbers
    return RunRows(
        run={
            "digest": bytes.fromhex(hexadecimal("run", number)),
            "suite": "made up",
            "driver": "580.159.04",
            "collected_at": START + 600 * number,
            "dirty": 0,
            "seconds": 150.0 + drawn.random(),
            "standing": standing,
            "outcome": "PASS",
            "added_at": START + 600 * number + 60,
            "bundle": hexadecimal("bundle", number),
            "branch": "origin/main",
            "headline": f"PASS: all {12 * series} checks passed",
            "invocation": f"https://github.com/OWNER/flashcore-ci/actions/runs/{number}/attempts/1",
        },
        commit={
            "sha": hexadecimal("commit", number)[:40],
            "parent": hexadecimal("commit", number - 1)[:40],
            "position": number + 1,
            "committed_at": START + 600 * number - 60,
            "subject": f"kernel: change number {number} of many, with a subject of usual length",
        },
        toolset={"tools": '[["flashcore-ci","0.1.0"],["ncu","2025.3.1.0"],["torch","2.11.0+cu130"]]'},
        check_set={"count": 12 * series, "checks": b"made up"},
        machine={
            "name": "NVIDIA H200",
            "uuid": f"GPU-{number % 2}",
            "compute_capability": "9.0",
            "multiprocessors": 132,
            "memory": 150_754_820_096,
            "l2": 62_914_560,
            "machine_class": "NVIDIA H200, sm_90, 132 multiprocessors",
        },
        points=tuple(_point(index, version, drawn) for index in range(series)),
    )


COLLECTOR = hexadecimal("collector")


@cache
def _question(index: int) -> str:
    return hexadecimal("question", index)


@cache
def _code(version: int, index: int) -> dict[str, str]:
    parts = {name: hexadecimal(name, version, index) for name in ("machine_code", "launcher", "binding", "subject")}
    return {**parts, "identity": hexadecimal("code", version, index)}


@cache
def _shared(version: int, index: int) -> dict[str, float]:
    values = random.Random(f"{version} {index}")  # noqa: S311
    return {name: values.random() for name in CORRECTNESS} | {name: float("launches" in name) for name in SANITIZER}


def _point(index: int, version: int, drawn: random.Random) -> PointRows:
    parts = _code(version, index)
    cycles = 1.1 * (index + 1) * drawn.gauss(1, 0.002)
    entry = {"symbol": f"kernel_{index}", "machine_code": parts["machine_code"], "opcodes": OPCODES}
    counts = ("registers", "highest_register", "spill_store_bytes", "spill_load_bytes", "stack_bytes")
    counts += ("static_shared_bytes", "dynamic_shared_bytes", "waits")
    timed = {"ms": cycles / 1.6, "ms_std": 0.001 * drawn.random(), "megacycles": cycles, "megacycles_std": 0.001 * drawn.random()}
    return PointRows(
        series={
            "suite": "made up",
            "workload": f"prefill-fp16-b16-h16-s2048-d64-{index}",
            "subject": "attention",
            "roof": "compute",
            "question": _question(index),
            "scale": "megacycles",
            "machine_class": "NVIDIA H200, sm_90, 132 multiprocessors",
        },
        epoch={"driver": "580.159.04", "clock_policy": "not locked", "collector": COLLECTOR},
        code=parts,
        entries=({**entry, **dict.fromkeys(counts, version)},),
        point={"outcome": 0, "samples": 10},
        own={**{name: drawn.uniform(1, 100) for name in (*PROFILE, *TIMING)}, **timed, "mhz": 1600.5, "mhz_std": drawn.random()},
        shared=_shared(version, index),
        ratios=(
            (
                {**_code(0, index), "facts": ""},
                {"log_ratio": drawn.gauss(0, 0.002), "standard_error": 0.0006 * (1 + drawn.random()), "df": 7.0, "rounds": 8},
            ),
        ),
    )


def made_runs(count: int, *, series: int, changes: int) -> Iterator[RunRows]:
    """Make runs, of which ``changes`` of 100 have other code than the one before."""
    version = 0
    for number in range(count):
        version += number * changes // 100 != (number - 1) * changes // 100
        yield made_run(number, series=series, version=version)


class BulkWriter:
    """Writes runs as ``add_run`` does, but many at once. Only a run with new code goes through ``add_run``, and others copy its ids."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.templates: dict[tuple[str, str], tuple[dict[str, int], list[dict[str, Any]]]] = {}
        self.pending: dict[Table, list[dict[str, Any]]] = {t.commits: [], t.runs: [], t.points: []}
        self.next = 0

    def add(self, rows: RunRows) -> None:
        """Add one run."""
        key = (str(rows.machine and rows.machine["uuid"]), str(rows.points[0].code and rows.points[0].code["identity"]))
        if key not in self.templates:
            self.flush()
            writing.add_run(self.connection, rows)
            self.templates[key] = self._template(rows)
            return
        self.next += 1
        ids, points = self.templates[key]
        digest = writing.content_digest(rows.commit)
        self.pending[t.commits].append({**rows.commit, "digest": digest, "id": self.next})
        self.pending[t.runs].append({**rows.run, **ids, "commit_id": self.next, "id": self.next})
        for template, point in zip(points, rows.points, strict=True):
            ((_, ratio),) = point.ratios
            self.pending[t.points].append(
                {**template, **point.point, **ratio, "run_id": self.next, "numbers": pack(point.own, SINGLE)}
            )

    def flush(self) -> None:
        """Write what waits."""
        for table, rows in self.pending.items():
            if rows:
                self.connection.execute(table.insert(), rows)
            rows.clear()

    def _template(self, rows: RunRows) -> tuple[dict[str, int], list[dict[str, Any]]]:
        run = self.connection.execute(select(t.runs).where(t.runs.c.digest == rows.run["digest"])).one()
        self.next = run.id  # a new commit has the same number, since every run has its own
        series = writing.share(self.connection, t.series, [point.series for point in rows.points])
        found = {
            row.series_id: row._asdict() for row in self.connection.execute(select(t.points).where(t.points.c.run_id == run.id))
        }
        ids = {name: getattr(run, name) for name in ("machine_id", "toolset_id", "check_set_id")}
        return ids, [found[number] for number in series]


def fill(url: str, runs: Iterable[RunRows], batch: int) -> None:
    """Write the runs to a new history, many per transaction."""
    parsed = address.parse(url, {})
    database.upgrade(parsed)
    with database.engine_of(parsed).connect() as connection:
        writer = BulkWriter(connection)
        for number, rows in enumerate(runs, 1):
            writer.add(rows)
            if number % batch == 0:
                writer.flush()
                connection.commit()
        writer.flush()
        connection.commit()


def measure(url: str, *, count: int, series: int, inserts: int) -> Iterator[str]:
    """Yield a line per figure, on the filled database. Another connection is open, as that of a dashboard."""
    parsed = address.parse(url, {})
    with database.engine_of(parsed).connect():
        yield _inserts(parsed, count=count, series=series, inserts=inserts)
    with database.reading(parsed) as connection:
        first = queries.series(connection)[0]
        for newest in (200, None):
            start = time.monotonic()
            found = len(queries.points(connection, first.id, newest=newest))
            yield f"{found} points of one series: {time.monotonic() - start:.2f} s"
        yield ", ".join(f"{name} {rows}" for name, rows in queries.counts(connection).items() if rows)


def _inserts(parsed: address.Address, *, count: int, series: int, inserts: int) -> str:
    seconds, cpu = [], []
    for number in range(count, count + inserts):
        rows = made_run(number, series=series, version=number)
        start, before = time.monotonic(), time.process_time()
        database.write(parsed, lambda connection, rows=rows: writing.add_run(connection, rows))
        seconds.append(1000 * (time.monotonic() - start))
        cpu.append(1000 * (time.process_time() - before))
    median, least, busy = statistics.median(seconds), min(seconds), statistics.median(cpu)
    return f"one insert with new code: median {median:.0f} ms, best of {inserts} {least:.0f} ms, CPU {busy:.0f} ms"


def main(arguments: list[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--db", default="sqlite:///build/history-size.db")
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--series", type=int, default=20)
    parser.add_argument("--changes", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="Fill nothing. Add runs from this number on, and measure.")
    given = parser.parse_args(arguments)
    start = time.monotonic()
    if not given.first:
        fill(given.db, made_runs(given.runs, series=given.series, changes=given.changes), batch=200)
    print(
        f"{given.runs} runs of {given.series} series, {given.changes} % change the code: filled in {time.monotonic() - start:.0f} s",
        flush=True,
    )
    for line in measure(given.db, count=given.first or given.runs, series=given.series, inserts=50):
        print(line, flush=True)
    if given.db.startswith("sqlite:///"):
        print(f"size: {Path(given.db.removeprefix('sqlite:///')).stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
