"""Turn a live run into a recording for the functional tests: ``make record OUT=runs/defects``.

usage: record_run.py RUN DEST

DEST gets the packed run, ``SUITE.tar.xz``, and ``SUITE.json`` with its time, the tools' versions, the verdicts and every process.
Folders of files in command lines are cut. Nothing else is changed, so collect at a path that may be published.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from flashcore_ci.store.run import LOGS, pack, read_run

MOST_BYTES = 480_000


def main(run: Path, dest: Path) -> int:
    """Write both files. Returns exit status 1 if they are too large, or if a process of the run did not end."""
    cut = [folder.name for folder in _processes(run / LOGS) if not (folder / "ended.json").is_file()]
    if cut:
        print(
            f"{run}: {', '.join(cut)} did not end, so this is no whole run. Give the run more time and record it again",
            file=sys.stderr,
        )
        return 1
    suite = read_run(run).plan.suite
    bundle, record = dest / f"{suite}.tar.xz", dest / f"{suite}.json"
    dest.mkdir(parents=True, exist_ok=True)
    pack(run, bundle)
    record.write_text(_text(_recording(run)), encoding="utf-8")
    sizes = {file: file.stat().st_size for file in (bundle, record)}
    print(*(f"wrote {file}: {size} bytes" for file, size in sizes.items()), sep="\n")
    total = sum(sizes.values())
    if total > MOST_BYTES:
        print(f"{total} bytes are too many for a recording (at most {MOST_BYTES})", file=sys.stderr)
    return int(total > MOST_BYTES)


def _recording(run: Path) -> dict[str, Any]:
    logs = run / LOGS
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    return {
        "seconds": round(max(_times(logs, "ended")) - min(_times(logs, "job")), 1),
        "versions": {name: _read(logs / f"{name}-version.out") for name in ("compute-sanitizer", "ncu")},
        "verdicts": [[v["gate"], v["target"], v["outcome"], v["reason"]["code"]] for v in report["verdicts"]],
        "processes": [_process(folder) for folder in _processes(logs)],
    }


def _processes(logs: Path) -> list[Path]:
    return [folder for folder in sorted(logs.iterdir()) if (folder / "job.json").is_file()]


def _times(logs: Path, name: str) -> list[float]:
    return [file.stat().st_mtime for file in logs.glob(f"*/{name}.json")]


def _process(folder: Path) -> dict[str, Any]:
    """Describe one process from its folder ``NUMBER-NAME``."""
    job, ended, result = (json.loads((folder / f"{name}.json").read_bytes()) for name in ("job", "ended", "result"))
    return {
        "name": folder.name.partition("-")[2],
        "kind": job["kind"],
        "workloads": [workload["id"] for workload in job["workloads"]],
        "argv": [Path(part).name if part.startswith("/") else part for part in ended["argv"]],
        **{key: ended[key] for key in ("exit_status", "timed_out")},
        "out": _read(folder / "worker.out"),
        "err": _read(folder / "worker.err"),
        "result": {key: result[key] for key in ("environment", "started", "finished", "outcomes")},
    }


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def _text(recording: dict[str, Any]) -> str:
    """Write a line for each verdict and each process, so that a difference can be read."""
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
