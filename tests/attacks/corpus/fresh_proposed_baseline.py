"""A baseline that is proposed from times which no process wrote."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from evidence_factories import make_evidence, make_observation

from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Samples
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import baseline
from flashcore_ci.run.process_results import ProcessResults
from flashcore_ci.run.request import Request
from flashcore_ci.store.run import Run

MS, CYCLES = (1.0, 1.25, 1.5), (2.0, 2.5, 3.0)
NAMES = tuple(f"artifacts/timing/process-{number}.json" for number in range(3))


def run_of(ms: tuple[float, ...], files: dict[str, bytes], names: tuple[str, ...], **changes: Any) -> Run:
    samples = (
        ("time/gpu/cold", Samples(values=ms, unit="ms")),
        ("cycles/gpu/cold", Samples(values=CYCLES[: len(ms)], unit="Mcycle")),
    )
    timed = replace(make_observation(Kind.TIMING, "big", samples=samples, artifacts=names), **changes)
    return Run(plan=Plan.__new__(Plan), evidence=make_evidence(observations=(timed,)), files=files)


def files() -> dict[str, bytes]:
    pairs = zip(NAMES, MS, CYCLES, strict=True)
    return {name: json.dumps({"outcomes": {"big": {"ms": ms, "megacycles": cycles}}}).encode() for name, ms, cycles in pairs}


def proposed(name: str, run: Run) -> Attack:
    def attempt(folder: Path) -> bool:
        (folder / "gates").mkdir(parents=True, exist_ok=True)
        (folder / "gates/a.toml").touch()  # a suite that is not there is refused
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(baseline, "read_run", lambda _: run)
            patch.setattr(Request, "root", folder)
            try:
                return bool(baseline.propose(folder, Request(suite=Path("gates/a.toml"), out=folder, environ={})).file.is_file())
            except FlashcoreError:
                return False

    return Attack(name=name, attempt=attempt)


def member(numbers: random.Random) -> Attack:
    place, factor = numbers.randrange(3), numbers.choice([0.1, 0.5, 1.001, 2, 10])
    forged = tuple(value * factor if index == place else value for index, value in enumerate(MS))
    absent = {name: data for number, (name, data) in enumerate(files().items()) if number != place}
    if numbers.random() < 0.5:
        return proposed(f"sample {place} times {factor}", run_of(forged, files(), NAMES))
    return proposed(f"without the file of process {place}", run_of(MS, absent, NAMES))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe evidence.json."""
    monkeypatch.setattr(ProcessResults, "check", lambda *_: None)


ATTACKS = (
    proposed("a time ten times as long", run_of((1.0, 12.5, 1.5), files(), NAMES)),
    proposed("a slightly longer time", run_of((1.0, 1.25, 1.5000001), files(), NAMES)),
    proposed("times in another order", run_of((1.5, 1.25, 1.0), files(), NAMES)),
    proposed("no files", run_of(MS, {}, NAMES)),
    proposed("no named files", run_of(MS, files(), ())),
    proposed("an empty file", run_of(MS, {**files(), NAMES[1]: b""}, NAMES)),
    proposed("results of another workload", run_of(MS, files(), NAMES, target="small")),
)
CLASS = AttackClass(name="a baseline of no process", attacks=ATTACKS, member=member, mutant=mutant)
