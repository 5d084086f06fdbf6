"""Time `history add` on a filled database, with a bundle and with some workloads of it.

    python tools/study/history_command.py URL BUNDLE [WORKLOADS]

``history_size.py`` fills one. CPU is that of all processes.
"""

from __future__ import annotations

import hashlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, delete, select

from flashcore_ci.history import address, database
from flashcore_ci.history import tables as t
from flashcore_ci.model.suite import Kind
from flashcore_ci.store import run as store
from flashcore_ci.store.codec import canonical
from flashcore_ci.store.run import prepare_run, read_run, write_run


def cut(bundle: Path, count: int, folder: Path) -> Path:
    """Write a run of some workloads of a bundle."""
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
    """Add a bundle repeatedly as a new run."""
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
    """Return how long cores were busy."""
    fields = list(map(int, Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def forget(connection: Connection, digest: bytes) -> None:
    """Remove a run, but not the rows that others could share."""
    number = connection.scalar(select(t.runs.c.id).where(t.runs.c.digest == digest))
    for table, column in ((t.points, "run_id"), (t.ratios, "run_id"), (t.verdicts, "run_id"), (t.runs, "id")):
        connection.execute(delete(table).where(table.c[column] == number))


def main(url: str, bundle: Path, workloads: int) -> None:
    """Print a line for each run."""
    with tempfile.TemporaryDirectory() as folder:
        for path in (cut(bundle, workloads, Path(folder)), bundle):
            print(command(url, path), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int((*sys.argv, 20)[3]))
