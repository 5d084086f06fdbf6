"""evidence.json holds times that no timing process wrote."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from evidence_factories import make_observation

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.reading import Measured, Samples
from flashcore_ci.model.suite import Kind
from flashcore_ci.run.process_results import ProcessResults

SLOW = (0.75, 0.76, 0.74, 0.77, 0.73)
FAST = tuple(value - 0.1 for value in SLOW)


def name(number: int) -> str:
    return f"artifacts/timing/process-{number}.json"


def result(milliseconds: float, target: str = "big") -> bytes:
    return json.dumps({"outcomes": {target: {"ms": milliseconds}}}).encode()


FILES = {name(number): result(value) for number, value in enumerate(SLOW)}


def attack(
    title: str, values: Sequence[float], files: Mapping[str, bytes] = FILES, artifacts: Sequence[str] = tuple(FILES)
) -> Attack:
    samples = (("time/gpu/cold", Samples(values=tuple(values), unit="ms")),)
    observation = make_observation(Kind.TIMING, samples=samples, artifacts=tuple(artifacts))

    def attempt(_: Path) -> bool:
        try:
            return ProcessResults(files).check(observation) is None
        except EvidenceError:
            return False

    return Attack(name=title, attempt=attempt)


def of_a_group(title: str, speedup: float, gbps: float = 300.0, files: Mapping[str, bytes] | None = None) -> Attack:
    """Make an attack of the readings that only several GPUs have."""
    written = {
        name(n): json.dumps({"outcomes": {"big": {"ms": 1.0, "speedup": 1.0 + n / 10, "gbps": 300.0}}}).encode() for n in range(5)
    }
    files = written if files is None else files
    readings = (("gpus/speedup", Measured(value=speedup, unit="ratio")), ("link/bandwidth", Measured(value=gbps, unit="GB/s")))
    observation = make_observation(Kind.TIMING, readings=readings, artifacts=tuple(written))

    def attempt(_: Path) -> bool:
        try:
            return ProcessResults(files).check(observation) is None
        except EvidenceError:
            return False

    return Attack(name=title, attempt=attempt)


ATTACKS = (
    of_a_group("two GPUs are faster than they were", 1.9),
    of_a_group("the best speed-up counts", 1.4),
    of_a_group("the links are faster", 1.2, 400.0),
    of_a_group("a speed-up without files", 1.2, files={}),
    of_a_group("a speed-up of files without it", 1.2, files={name(number): result(1.0) for number in range(5)}),
    attack("all times are faster", FAST),
    attack("one time is faster", (*SLOW[:4], FAST[4])),
    attack("a time is faster by one in the last digit", (*SLOW[:4], SLOW[4] - 1e-16)),
    attack("the fastest time counts five times", (min(SLOW),) * 5),
    attack("the fastest time counts twice", (*SLOW[:4], min(SLOW[:4]))),
    attack("there is one process more", (*SLOW, SLOW[-1])),
    attack("the times are sorted", sorted(SLOW)),
    attack("a result was removed", SLOW, {file: FILES[file] for file in list(FILES)[1:]}),
    attack("all results were removed", SLOW, {}),
    attack("no result is named", SLOW, artifacts=()),
    attack("the results are of another workload", SLOW, {file: result(value, "small") for file, value in zip(FILES, SLOW, strict=True)}),
    attack("a result was emptied", SLOW, {**FILES, name(2): b""}),
    attack("a result was cut", SLOW, {**FILES, name(2): FILES[name(2)][:-3]}),
    attack("a result holds a text", SLOW, {**FILES, name(2): b'{"outcomes": {"big": {"ms": "0.74"}}}'}),
    attack("a result holds a list", SLOW, {**FILES, name(2): b"[0.74]"}),
    attack("a result is nested deeply", SLOW, {**FILES, name(2): b"[" * 100_000}),
)  # fmt: skip


def member(numbers: random.Random) -> Attack:
    """Change one sample, or damage one result."""
    place = numbers.randrange(5)
    if numbers.random() < 0.5:
        values = list(SLOW)
        values[place] = numbers.uniform(0.1, 0.7)
        return attack(f"sample {place}", values)
    data = FILES[name(place)]
    damaged = numbers.choice([data[: numbers.randrange(len(data))], result(numbers.uniform(0.1, 0.7)), numbers.randbytes(20)])
    return attack(f"result {place}", SLOW, {**FILES, name(place): damaged})


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe evidence.json."""
    monkeypatch.setattr(ProcessResults, "check", lambda *_: None)


CLASS = AttackClass(name="times that no process wrote", attacks=ATTACKS, member=member, mutant=mutant)
