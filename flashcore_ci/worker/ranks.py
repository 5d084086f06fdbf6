"""Start one process per GPU for a job, watch them, and join what they wrote.

Each rank is a worker of its own on the same job, with a result file of its own. The first that dies, hangs or raises ends all. What all ranks
had finished is kept.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import math
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashcore_ci.model import strict_json
from flashcore_ci.model.codes import Code
from flashcore_ci.worker.job import Job, Result, missing

POLL_SECONDS = 0.05
TOGETHER = frozenset({"correctness", "timing", "messages"})
"""Jobs that need all ranks at once. A tool runs each rank alone."""
NEAR_ONE = frozenset({"link/traffic"})
"""Readings that must be 1. Of all others the largest is the worst."""


SENSORS: dict[str, Any] = {
    "watts": max,
    "celsius": max,
    "nvml_mhz": min,
    "reasons": lambda each: dict(sum(map(Counter, each), Counter())),
}
"""How the sensors of the ranks' GPUs are joined."""


def lead(job: Job, result: Result) -> bool:
    """Run the job on ``options["gpus"]`` GPUs. False, and no rank left, once one failed."""
    context = multiprocessing.get_context("spawn")
    size = int(job.options["gpus"])
    files = [job.folder / f"rank-{rank}.json" for rank in range(size)]
    ranks = [context.Process(target=be_rank, args=(str(job.folder / "job.json"), str(file), n)) for n, file in enumerate(files)]
    started: list[Any] = []
    try:
        for process in ranks:
            process.start()
            started.append(process)
        return _Watch(job, result, files).follow(ranks)
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.join()


class _Watch:
    def __init__(self, job: Job, result: Result, files: Sequence[Path]) -> None:
        self._job, self._result, self._files = job, result, files
        self._signal = job.options.get("go")
        self._progress = time.monotonic()
        self._seen: tuple[Any, ...] = ()

    def follow(self, ranks: Sequence[Any]) -> bool:
        """Keep what all ranks have finished, until they end or one fails."""
        while True:
            ended = [process.exitcode for process in ranks]  # before their files are read
            read = [_read(file) for file in self._files]
            kept = self._keep(read)
            killed = [process.exitcode or None for process in ranks]  # a rank whose neighbour died may write that it lost it
            failure = _died(killed, read) or kept or _died(ended, read) or self._hung(read)
            if failure is not None:
                at, outcome = failure
                if not at:
                    raise RuntimeError(outcome["missing"]["message"])
                if at not in self._result.content["outcomes"]:
                    self._result.start(at)
                    self._result.finish(at, outcome)
                return False
            if all(code == 0 for code in ended):
                return True
            time.sleep(POLL_SECONDS)

    def _keep(self, read: Sequence[Mapping[str, Any]]) -> tuple[str, dict[str, Any]] | None:
        """Record what is complete. Return the first failure."""
        if read[0]["environment"]:
            self._result.environment(**read[0]["environment"])
        current = next((one["started"] for one in read if one["started"]), None)
        if current != self._result.content["started"] and current not in self._result.content["outcomes"]:
            self._result.content["started"] = current
            self._result.write()
        for name in dict.fromkeys(name for one in read for name in one["outcomes"]):
            outcomes = [one["outcomes"].get(name) for one in read]
            failed = [(rank, outcome) for rank, outcome in enumerate(outcomes) if outcome is not None and "missing" in outcome]
            if failed:
                rank, outcome = min(failed, key=lambda one: one[1]["missing"]["code"] == Code.RANKS_DISAGREE)  # which may follow
                why = outcome["missing"]
                return name, {**outcome, "missing": {"code": why["code"], "message": f"rank {rank}: {why['message']}"}}
            whole = [outcome for outcome in outcomes if outcome is not None]
            if len(whole) == len(read) and name not in self._result.content["outcomes"]:
                self._result.finish(name, combine(whole))
        return None

    def _hung(self, read: Sequence[Mapping[str, Any]]) -> tuple[str, dict[str, Any]] | None:
        now = time.monotonic()
        seen = tuple((one["started"], len(one["outcomes"])) for one in read)
        waiting = self._signal is not None and not Path(self._signal).exists()
        if waiting or seen != self._seen:
            self._seen, self._progress = seen, now
        limit = float(self._job.options["rank_seconds"])
        if now - self._progress <= limit:
            return None
        late = [str(rank) for rank, (started, _) in enumerate(seen) if started] or [str(rank) for rank in range(len(seen))]
        at = next((started for started, _ in seen if started), "")
        return at, missing(Code.RANK_HUNG, f"rank {' and '.join(late)} did not end within {limit:.0f} s")


def _died(ended: Sequence[int | None], read: Sequence[Mapping[str, Any]]) -> tuple[str, dict[str, Any]] | None:
    for rank, code in enumerate(ended):
        gave_reason = any("missing" in outcome for outcome in read[rank]["outcomes"].values())
        if code is None or gave_reason or (code == 0 and read[rank]["finished"]):
            continue
        at = read[rank]["started"] or next((one["started"] for one in read if one["started"]), "")
        how = f"was killed by signal {-code}" if code < 0 else f"ended early, exit status {code}"
        return at, missing(Code.RANK_DIED, f"rank {rank} {how}")
    return None


def _read(file: Path) -> dict[str, Any]:
    empty: dict[str, Any] = {"environment": {}, "started": None, "finished": False, "outcomes": {}}
    with contextlib.suppress(OSError, ValueError):
        content = strict_json.loads(file.read_bytes())
        if isinstance(content, dict) and isinstance(content.get("outcomes"), dict):
            return {**empty, **content}
    return empty


def combine(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join what the ranks measured of one workload: the worst of each reading, and all notes."""
    names = dict.fromkeys(name for outcome in outcomes for name in outcome.get("readings", {}))
    if any(set(outcome.get("readings", {})) != set(names) for outcome in outcomes):
        return missing(Code.RANKS_DISAGREE, "the ranks wrote different readings")
    readings = {name: _worst(name, [outcome["readings"][name] for outcome in outcomes]) for name in names}
    notes = [f"rank {rank}: {note}" for rank, outcome in enumerate(outcomes) for note in outcome.get("notes", ())]
    whole = {name: value for name, value in outcomes[0].items() if name not in SENSORS} | _sensors(outcomes)
    whole["seconds"] = max(outcome["seconds"] for outcome in outcomes)
    return whole | ({"readings": readings, "notes": notes} if names else {"notes": notes} if notes else {})


def _sensors(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join what every rank's GPU showed. What one did not show is unknown."""
    return {name: join([one[name] for one in outcomes]) for name, join in SENSORS.items() if all(name in one for one in outcomes)}


def _worst(name: str, values: Sequence[float | str]) -> float | str:
    def badness(value: float | str) -> float:
        number = float(value)
        return math.inf if math.isnan(number) else abs(number - 1.0) if name in NEAR_ONE else number

    return max(values, key=badness)


def be_rank(job_file: str, result_file: str, rank: int) -> None:
    """Do the job as one rank. It exits with 0 only if it finished."""
    os.environ["NCCL_NVLS_ENABLE"] = "0"  # NVLink multicast can put a shared host out of service
    job = Job.read(Path(job_file))
    result = Result(job, Path(result_file))
    result.write()
    from flashcore_ci.worker import connection, file_reads, foreign_files, guard
    from flashcore_ci.worker.__main__ import JOBS

    file_reads.ignore_bytecode(job.root)
    foreign_files.redirect(job)
    import torch

    if job.options.get("go"):
        guard.wait_for(Path(job.options["go"]))  # the next line takes GPU memory
    torch.cuda.set_device(rank)
    options = {**job.options, "uuid": job.options["uuids"][rank], "rank": rank}
    completed = importlib.import_module(f"flashcore_ci.worker.{JOBS[job.kind]}").run(
        dataclasses.replace(job, options=options), result
    )
    if completed:
        connection.leave()
        result.done()
    sys.stderr.flush()
    os._exit(0 if completed else 1)  # without NCCL's clean-up, which may wait for a rank that has gone
