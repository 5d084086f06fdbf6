"""Get FlashAttention-3's own tests, run a sample of their cases without the gate, and write a table of the counts.

``fetch FOLDER`` downloads the files that kernel/subjects/upstream.py pins. ``run OUT --sample 600`` writes one line of JSON for each case,
the cheapest first. ``--shard 1/8`` is for the second of eight processes. ``table OUT...`` joins such files. The gate is gates/upstream.toml.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import importlib.util
import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
URL = "https://raw.githubusercontent.com/Dao-AILab/flash-attention/{commit}/{path}"
RESULTS = ("passed", "wrong", "refused")
Counts = collections.Counter[tuple[str, str]]


def load_subject() -> Any:
    """Import the subject's file."""
    spec = importlib.util.spec_from_file_location("upstream_subject", ROOT / "kernel/subjects/upstream.py")
    assert spec is not None
    assert spec.loader is not None
    subject = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(subject)
    return subject


def fetch(folder: Path) -> None:
    """Download the pinned files and their licence."""
    subject = load_subject()
    folder.mkdir(parents=True, exist_ok=True)
    for path in ("LICENSE", *(f"hopper/{name}" for name in subject.FILES)):
        with urllib.request.urlopen(URL.format(commit=subject.COMMIT, path=path), timeout=60) as answer:  # noqa: S310 - https
            (folder / Path(path).name).write_bytes(answer.read())
    os.environ[subject.FOLDER] = str(folder)
    subject.find_files(subject.FOLDER, subject.FILES)
    print(f"export {subject.FOLDER}={folder.resolve()}")


def cost(case: Any) -> int:
    """Estimate the scores that the reference of a case computes."""
    p = case.arguments
    return int(p.get("seqlen_q", p.get("seqlen", 1)) * p.get("seqlen_k", p.get("num_splits", 1)))


def run(options: argparse.Namespace) -> int:
    """Run one shard until its time is over. Return 1 if a case was wrong."""
    subject = load_subject()
    cases = importlib.import_module("flashcore_ci.worker.cases")
    sets = subject.upstream_cases
    groups = options.group or (*sets.GROUPS, *sets.APART_GROUPS)
    params = {"sample": options.sample, "package": options.package}
    found = [case for group in groups for case in subject.cases({**params, "group": group}, options.seed)]
    found.sort(key=lambda each: cost(each[2]))
    part, parts = map(int, options.shard.split("/"))
    end, wrong = time.monotonic() + options.seconds, 0
    with options.out.open("w", encoding="utf-8") as file:
        for name, features, case in found[part::parts]:
            if (began := time.monotonic()) > end:
                break
            result, why = cases.run_case(subject, case)
            wrong += result == "wrong"
            row = {"case": name, "group": sets.group_of(case), "features": features, "result": result, "why": why}
            file.write(json.dumps({**row, "seconds": round(time.monotonic() - began, 4)}) + "\n")
            file.flush()
    return int(wrong > 0)


def count(rows: Iterable[Mapping[str, Any]]) -> Counts:
    """Count results by group and by feature. A case that two files have counts once."""
    counts: Counts = collections.Counter()
    for row in {row["case"]: row for row in rows}.values():
        names = dict.fromkeys(("all", row["group"], *map(str, row["features"])))
        counts.update((name, row["result"]) for name in names)
    return counts


def table(files: list[Path]) -> int:
    """Print a Markdown table, then what did not pass."""
    rows = [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    counts = count(rows)
    print(f"| feature | {' | '.join(RESULTS)} |\n| --- | {' | '.join('---:' for _ in RESULTS)} |")
    for name in dict.fromkeys(name for name, _ in counts):
        print(f"| {name} | {' | '.join(str(counts[name, result]) for result in RESULTS)} |")
    print(f"\n{sum(row['seconds'] for row in rows):.0f} s in cases")
    for row in rows:
        if row["result"] == "wrong":
            print(f"wrong: {row['case']}: {row['why']}")
    refused = collections.Counter(row["why"] for row in rows if row["result"] == "refused")
    for why, number in refused.most_common(20):
        print(f"refused {number}: {why}")
    return int(counts["all", "wrong"] > 0)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch").add_argument("folder", type=Path)
    commands.add_parser("table").add_argument("files", type=Path, nargs="+")
    runner = commands.add_parser("run")
    runner.add_argument("out", type=Path)
    runner.add_argument("--package", default="flashcore", help="fa3 runs FlashAttention-3's package")
    runner.add_argument("--sample", type=int, default=600)
    runner.add_argument("--group", action="append")
    runner.add_argument("--seed", type=int, default=18)
    runner.add_argument("--shard", default="0/1", help="for example 1/2: the second half")
    runner.add_argument("--seconds", type=float, default=3600.0)
    options = parser.parse_args()
    if options.command == "fetch":
        fetch(options.folder)
        return 0
    sys.path.insert(0, str(ROOT))
    return table(options.files) if options.command == "table" else run(options)


if __name__ == "__main__":
    sys.exit(main())
