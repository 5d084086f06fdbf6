"""Collect the medians of processes from recorded evidence, as one more file of sittings for ``labelled.py``.

    python tools/detectors/medians.py OUT.json.xz [EVIDENCE ...]

Every bundle that the git history had in gates/evidence is a sitting, and so is each EVIDENCE (an ``evidence.json``). Processes of one
sitting ran the same code, so the true log ratio of two of them is 0. Sittings of fewer than 5 processes are left out.
"""

from __future__ import annotations

import io
import json
import lzma
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = "gates/evidence"
SCALES = {"ms": "time/gpu/cold", "megacycles": "cycles/gpu/cold"}
FEWEST = 5


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], check=True, stdout=subprocess.PIPE).stdout


def recorded() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the evidence of every bundle that was ever committed."""
    seen: set[str] = set()
    for commit in git("log", "--format=%H", "--", FOLDER).decode().split():
        for line in git("ls-tree", "-r", commit, FOLDER).decode().splitlines():
            (_, _, blob), name = line.split("\t")[0].split(), line.split("\t")[1]
            if name.endswith(".tar.xz") and blob not in seen:
                seen.add(blob)
                with tarfile.open(fileobj=io.BytesIO(git("cat-file", "blob", blob))) as bundle:
                    member = bundle.extractfile("evidence.json")
                    assert member is not None
                    yield f"{name} of {commit[:12]}", json.load(member)


def sitting_of(source: str, evidence: dict[str, Any]) -> dict[str, Any] | None:
    provenance, rows = evidence["provenance"], {}
    for seen in evidence["observations"]:
        values = {name: found["values"] for name, found in (seen["samples"] or ())} if seen["kind"] == "timing" else {}
        if len(values.get(SCALES["ms"], ())) >= FEWEST:
            rows[seen["target"]] = {name: values[metric] for name, metric in SCALES.items()}
    if not rows:
        return None
    version, count = provenance["commit"][:12], min(len(each["ms"]) for each in rows.values())
    processes = [
        {"rows": {name: {version: {scale: each[scale][index] for scale in SCALES}} for name, each in sorted(rows.items())}}
        for index in range(count)
    ]
    about = {"at": provenance["collected_at"], "gpu": provenance["device"]["uuid"], "source": source}
    return {"sitting": about, "processes": processes}


def main() -> None:
    given = (
        (f"not committed, {Path(name).parent.name}", json.loads(Path(name).read_text(encoding="utf-8"))) for name in sys.argv[2:]
    )
    sittings = filter(None, (sitting_of(source, evidence) for source, evidence in (*recorded(), *given)))
    ordered = sorted(sittings, key=lambda each: each["sitting"]["at"])
    Path(sys.argv[1]).write_bytes(lzma.compress(json.dumps({"sittings": ordered}, separators=(",", ":")).encode(), preset=9))
    for each in ordered:
        print(each["sitting"], sum(len(process["rows"]) for process in each["processes"]), "medians")


if __name__ == "__main__":
    main()
