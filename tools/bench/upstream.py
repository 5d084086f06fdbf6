"""Get FlashAttention-3's own tests, run a sample of their cases without the gate, and write a table of the counts.

``fetch FOLDER`` downloads the files that kernel/subjects/upstream.py pins. ``run OUT --sample 600`` writes one line of JSON for each case,
the cheapest first. ``--processes 8`` divides the cases among eight processes, which write OUT.0 to OUT.7. ``--done OUT...`` leaves out what
passed before, so that a run can go on in the next session. ``table OUT...`` joins such files. The gate is gates/upstream.toml.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import gc
import importlib
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
URL = "https://raw.githubusercontent.com/Dao-AILab/flash-attention/{commit}/{path}"
RESULTS = ("passed", "wrong", "refused")
UNJUDGED = "out of memory"
"""The result of a case for which other processes left no memory."""
NO_MEMORY = ("out of memory", "ALLOC_FAILED")
"""What the errors say that the worker does not count as wrong."""
TRIES, PAUSE = 5, 3.0  # of a case without memory, and the most seconds between two
LARGE = 4 << 30
"""Bytes of free memory that a process may keep."""
GRACE = 30.0  # seconds in which a process may end its last case
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


def choose(subject: Any, options: argparse.Namespace) -> list[Any]:
    """List the cases of this process, the cheapest first, without those that passed before."""
    sets = subject.upstream_cases
    passed = {row["case"] for row in read(options.done) if row["result"] == "passed"}
    found = [
        case
        for sample in options.sample or [600]
        for group in options.group or (*sets.GROUPS, *sets.APART_GROUPS)
        for case in subject.cases({"sample": sample, "package": options.package, "group": group}, options.seed)
        if case[0] not in passed
    ]
    found.sort(key=lambda each: cost(each[2]))
    part, parts = map(int, options.shard.split("/"))
    return found[part::parts]


def run(options: argparse.Namespace) -> int:
    """Run one shard until its time is over. Return 1 if a case was wrong."""
    end, wrong = time.monotonic() + options.seconds, 0
    subject = load_subject()
    sets, fp8 = subject.upstream_cases, subject.upstream_fp8
    cases, guard = (importlib.import_module(f"flashcore_ci.worker.{name}") for name in ("cases", "guard"))
    with options.out.open("w", encoding="utf-8") as file:
        for i, (name, features, case) in enumerate(choose(subject, options)):
            if (began := time.monotonic()) > end:
                break
            kernels = None
            if options.profile and i % options.profile == 0:
                result, why, kernels = run_profiled(cases, subject, case)
            else:
                result, why = run_patiently(cases, subject, case)
            wrong += result == "wrong"
            group = (fp8 if isinstance(case, fp8.Case) else sets).group_of(case)
            row = {"case": name, "group": group, "features": features, "result": result, "why": why}
            row |= {} if kernels is None else {"kernels": kernels}
            file.write(json.dumps({**row, "seconds": round(time.monotonic() - began, 4)}) + "\n")
            file.flush()
            if result == "wrong" and (broken := guard.context_error()):
                print(f"{name}: {broken}", file=sys.stderr)
                break  # every other case would be wrong too
    return int(wrong > 0)


def run_patiently(cases: Any, subject: Any, case: Any) -> tuple[str, str]:
    """Run a case again later if there was no memory, because other processes of this GPU need some for a moment."""
    for attempt in range(TRIES):
        try:
            result: tuple[str, str] = cases.run_case(subject, case)
        except Exception as error:
            if not any(phrase in str(error) for phrase in NO_MEMORY):
                raise
            free_memory(kept=0)
            time.sleep(random.uniform(0, PAUSE) if attempt < TRIES - 1 else 0)  # noqa: S311 - no secret
        else:
            with contextlib.suppress(RuntimeError):  # the context may be lost, which is asked next
                free_memory(kept=LARGE)
            return result
    return UNJUDGED, ""


def run_profiled(cases: Any, subject: Any, case: Any) -> tuple[str, str, int]:
    """Run a case. Return also how many kernels of FlashCore the profiler saw."""
    torch = importlib.import_module("torch")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        result, why = run_patiently(cases, subject, case)
    return result, why, sum("flashcore" in event.name for event in profiler.events())


def free_memory(kept: int) -> None:
    """Give memory back to the GPU if PyTorch keeps more than this for the next case."""
    cuda = sys.modules["torch"].cuda
    if getattr(cuda, "memory_reserved", int)() > kept:
        gc.collect()
        cuda.empty_cache()


def run_parallel(options: argparse.Namespace, argv: list[str]) -> int:
    """Run every shard in a process of its own, then print the table of all. Return 1 if a case was wrong or a process ended early."""
    files = [options.out.with_name(f"{options.out.name}.{i}") for i in range(options.processes)]
    at = next(i for i, argument in enumerate(argv) if Path(argument) == options.out)
    failed, running = 0, []
    for i, file in enumerate(files):
        shard = ["--processes", "1", "--shard", f"{i}/{len(files)}"]
        command = [sys.executable, __file__, *argv[:at], str(file), *argv[at + 1 :], *shard]
        gpu = {"CUDA_VISIBLE_DEVICES": options.gpus[i % len(options.gpus)]} if options.gpus else {}
        with file.with_suffix(f"{file.suffix}.log").open("w", encoding="utf-8") as log:
            running.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **gpu}))
    end = time.monotonic() + options.seconds + GRACE
    for process, file in zip(running, files, strict=True):
        try:
            status = process.wait(max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        was_wrong = file.is_file() and any(row["result"] == "wrong" for row in read([file]))
        if status != was_wrong or not file.is_file():  # 1 is also the status of an exception
            failed += 1
            print(f"{file.name}: status {status}, see {file.name}.log")
    print(f"{failed} of {len(files)} processes failed")
    return table([file for file in [*options.done, *files] if file.is_file()]) or int(failed > 0)


def read(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Read the rows of some runs. A row that a process did not write to its end is left out."""
    lines = (line for path in files for line in path.read_text(encoding="utf-8").split("\n")[:-1])
    return [json.loads(line) for line in lines]


def count(rows: Iterable[Mapping[str, Any]]) -> Counts:
    """Count results by group and by feature. A case that two files have counts once."""
    counts: Counts = collections.Counter()
    for row in {row["case"]: row for row in rows}.values():
        names = dict.fromkeys(("all", row["group"], *map(str, row["features"])))
        counts.update((name, row["result"]) for name in names)
    return counts


def table(files: list[Path]) -> int:
    """Print a Markdown table, then what did not pass."""
    rows = read(files)
    counts = count(rows)
    print(f"| feature | {' | '.join(RESULTS)} |\n| --- | {' | '.join('---:' for _ in RESULTS)} |")
    for name in dict.fromkeys(name for name, _ in counts):
        print(f"| {name} | {' | '.join(str(counts[name, result]) for result in RESULTS)} |")
    print(f"\n{len({row['case'] for row in rows})} different cases, {sum(row['seconds'] for row in rows):.0f} s in cases")
    seen = [row for row in rows if "kernels" in row and row["result"] == "passed"]
    print(f"{sum(row['kernels'] > 0 for row in seen)} of {len(seen)} profiled cases that passed ran a kernel of FlashCore")
    print(f"{counts['all', UNJUDGED]} not judged, because there was no memory")
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
    runner.add_argument("--sample", type=int, action="append", help="default 600. May be repeated")
    runner.add_argument("--group", action="append")
    runner.add_argument("--seed", type=int, default=18)
    runner.add_argument("--shard", default="0/1", help="for example 1/2: the second half")
    runner.add_argument("--seconds", type=float, default=3600.0)
    runner.add_argument("--processes", type=int, default=1)
    runner.add_argument("--gpus", nargs="+", default=[], help="GPUs that share the processes, by their index")
    runner.add_argument("--profile", type=int, default=0, help="40: look for kernels of FlashCore in every fortieth case")
    runner.add_argument("--done", type=Path, nargs="+", default=[], help="files of earlier runs")
    options = parser.parse_args()
    if options.command == "fetch":
        fetch(options.folder)
        return 0
    sys.path.insert(0, str(ROOT))
    if options.command == "table":
        return table(options.files)
    return run(options) if options.processes == 1 else run_parallel(options, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
