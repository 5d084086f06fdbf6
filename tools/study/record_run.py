"""Turn a live run into a recording that the functional tests replay and judge: ``make record OUT=runs/defects``.

Usage: ``record_run.py RUN DEST``. DEST gets two files, named after the run's suite:

* ``SUITE.tar.xz``: the packed run (plan, evidence, and the tools' own files: sanitizer logs, .ncu-rep, samples);
* ``SUITE.json``: how long its processes took together, versions of the tools as they print them, the verdicts that this run led to, and each
  process that it started: command line, how it ended, what it printed, and the result that the worker wrote.

From file names in command lines the folders are cut; nothing else is changed. Collect at a path that may be published.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from flashcore_ci.store.run import LOGS, pack, read_run

MOST_BYTES = 300_000


def main(run: Path, dest: Path) -> int:
    """Write both files and say what was written over; exit status 1 when the run is not what a recording needs."""
    suite = read_run(run).plan.suite
    bundle, record = dest / f"{suite}.tar.xz", dest / f"{suite}.json"
    before = {file: file.exists() for file in (bundle, record)}
    dest.mkdir(parents=True, exist_ok=True)
    pack(run, bundle)
    record.write_text(_text(_recording(run)), encoding="utf-8")
    for file, replaced in before.items():
        print(f"{'replaced' if replaced else 'wrote'} {file}: {file.stat().st_size} bytes")
    total = sum(file.stat().st_size for file in before)
    if total > MOST_BYTES:
        print(f"{total} bytes are too many for a recording (at most {MOST_BYTES})", file=sys.stderr)
    return int(total > MOST_BYTES)


def _recording(run: Path) -> dict[str, Any]:
    logs = run / LOGS
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    return {
        "seconds": _seconds(logs),
        "versions": {name: _said(logs / f"{name}-version.out") for name in ("compute-sanitizer", "ncu")},
        "verdicts": [[v["gate"], v["target"], v["outcome"], v["reason"]["code"]] for v in report["verdicts"]],
        "processes": [_process(folder) for folder in sorted(logs.iterdir()) if folder.is_dir()],
    }


def _seconds(logs: Path) -> float:
    """From when the first process was given its job until the last one had ended."""
    begun, ended = ([file.stat().st_mtime for file in logs.glob(f"*/{name}.json")] for name in ("job", "ended"))
    return round(max(ended) - min(begun), 1)


def _process(folder: Path) -> dict[str, Any]:
    """One process; its folder is called ``NUMBER-NAME``."""
    job, ended, result = (json.loads((folder / f"{name}.json").read_bytes()) for name in ("job", "ended", "result"))
    return {
        "name": folder.name.partition("-")[2],
        "kind": job["kind"],
        "workloads": [workload["id"] for workload in job["workloads"]],
        "argv": [Path(part).name if part.startswith("/") else part for part in ended["argv"]],
        "exit_status": ended["exit_status"],
        "timed_out": ended["timed_out"],
        "out": _said(folder / "worker.out"),
        "err": _said(folder / "worker.err"),
        "result": {key: result[key] for key in ("environment", "started", "finished", "outcomes")},
    }


def _said(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def _text(recording: dict[str, Any]) -> str:
    """JSON with a line for each verdict and each process, so that a difference can be read."""
    parts = []
    for key, value in recording.items():
        lines = value if isinstance(value, list) else [value]
        inside = ",\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
        parts.append(f'"{key}": [\n{inside}\n]' if isinstance(value, list) else f'"{key}": {inside}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:  # noqa: PLR2004 - RUN and DEST
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
