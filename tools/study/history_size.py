"""Fill a history with made-up runs, and measure size, one insert, reading a series and `history add`.

``python tools/study/history_size.py --runs 100000 --series 20`` writes the figures of docs/history.md. Every number is drawn from a
seed, and ``--changes`` says how many of 100 commits change the code of every workload. ``--command BUNDLE`` times
`history add` on a filled database, with the bundle and with ``--series`` workloads of it.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, delete, select

from flashcore_ci.history import address, database, queries, writing
from flashcore_ci.history import tables as t
from flashcore_ci.history.measured import PointRows
from flashcore_ci.history.packing import SINGLE, pack
from flashcore_ci.history.rows import RunRows
from flashcore_ci.model.suite import Kind
from flashcore_ci.store import run as store
from flashcore_ci.store.codec import canonical
from flashcore_ci.store.run import prepare_run, read_run, write_run

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


def cut(bundle: Path, count: int, folder: Path) -> Path:
    """Write a run of some workloads of a bundle, with the files that they name."""
    run = read_run(bundle)
    order = sorted(run.evidence.observations, key=lambda seen: seen.kind is not Kind.PROFILE)
    kept = set(list(dict.fromkeys(seen.target for seen in order if seen.target in {w.id for w in run.plan.workloads}))[:count])
    others = {workload.id for workload in run.plan.workloads} - kept
    described = [replace(d, problems=tuple(p for p in d.problems if p.workload in kept)) for d in run.plan.descriptions]
    plan = replace(
        run.plan,
        workloads=tuple(w for w in run.plan.workloads if w.id in kept),
        checks=tuple(check for check in run.plan.checks if check.target not in others),
        descriptions=tuple(described),
    )
    evidence = replace(run.evidence, observations=tuple(o for o in run.evidence.observations if o.target not in others))
    prepare_run(folder / "run", plan)
    named = {name for seen in evidence.observations for name in seen.artifacts}
    for name, data in ((name, data) for name, data in run.files.items() if name in named or "/sanitizer/" in name):
        (folder / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "run" / name).write_bytes(data)
    write_run(folder / "run", plan, evidence)
    store.pack(folder / "run", folder / "run.tar.xz")
    return folder / "run.tar.xz"


def command(url: str, bundle: Path, samples: int = 10) -> str:
    """Add a bundle repeatedly as a new run. Bytecode is cached, as pip does."""
    parsed, wall, cpu, others = address.parse(url, {}), [], [], []
    digest = hashlib.sha256(canonical(read_run(bundle).evidence)).digest()
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    argv = [sys.executable, "-m", "flashcore_ci.cli.main", "history", "add", str(bundle), "--db", url, "--json"]
    for _ in range(samples + 1):
        database.write(parsed, lambda connection: forget(connection, digest))
        started, busy, before = time.monotonic(), busy_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
        said = subprocess.run(argv, env=environ, check=True, capture_output=True, text=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert '"added"' in said, said
        wall.append(time.monotonic() - started)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        others.append((busy_seconds() - busy - cpu[-1]) / wall[-1])
    middle = [statistics.median(values[1:]) for values in (wall, cpu, others)]
    series = len(read_run(bundle).plan.workloads)
    spare = "{:.2f} s of CPU, {:.2f} s, while others used {:.1f} of {} cores".format(*middle[1::-1], middle[2], os.cpu_count())
    return (
        f"`history add` of {series} workloads: {spare} (medians of {samples}, least {min(cpu):.2f} s of CPU, {min(wall):.2f} s)"
    )


def busy_seconds() -> float:
    """Return how long all cores were busy."""
    fields = list(map(int, Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def forget(connection: Connection, digest: bytes) -> None:
    """Remove a run, but not the rows that others could share."""
    number = connection.scalar(select(t.runs.c.id).where(t.runs.c.digest == digest))
    for table, column in ((t.points, "run_id"), (t.ratios, "run_id"), (t.verdicts, "run_id"), (t.runs, "id")):
        connection.execute(delete(table).where(table.c[column] == number))


def main(arguments: list[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--db", default="sqlite:///build/history-size.db")
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--series", type=int, default=20)
    parser.add_argument("--changes", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="Fill nothing. Add runs from this number on, and measure.")
    parser.add_argument("--command", type=Path, help="A bundle. Fill nothing, and time the command that adds it.")
    given = parser.parse_args(arguments)
    if given.command:
        with tempfile.TemporaryDirectory() as folder:
            for bundle in (cut(given.command, given.series, Path(folder)), given.command):
                print(command(given.db, bundle), flush=True)
        return 0
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
