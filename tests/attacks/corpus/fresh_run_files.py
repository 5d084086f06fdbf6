"""Files of a run that are read again: results of processes, logs and pages that grow, lie by type, or end the gate."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tool_files as run
from attacking import Attack, AttackClass
from evidence_factories import make_observation

from flashcore_ci.adapters import sanitizer, sanitizer_log
from flashcore_ci.bounded import values
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.reading import Samples
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import dossier, process_results, rederive
from flashcore_ci.run.process_results import ProcessResults

RESULT = "artifacts/timing/process-0.json"
HUGE = "1" + "0" * 400


def document(value: str) -> str:
    return '{"outcomes": {"big": {"ms": ' + value + "}}}"


def result(name: str, text: str, *, value: float = 1.0) -> Attack:
    """Give samples that this result is taken for. True if it is, or if the gate ends with a traceback."""
    samples = Samples(values=(value,), unit="ms")
    timed = make_observation(Kind.TIMING, "big", samples=(("time/gpu/cold", samples),), artifacts=(RESULT,))

    def attempt(_: Path) -> bool:
        try:
            return ProcessResults({RESULT: text.encode()}).check(timed) is None
        except EvidenceError:
            return False
        except Exception:  # noqa: BLE001 - a bug of the gate
            return True

    return Attack(name=f"result: {name}", attempt=attempt)


def log(name: str, file: str, text: str) -> Attack:
    """Let the gate parse a huge log."""
    source = run.with_file(run.RUN, file, text)

    def attempt(_: Path) -> bool:
        parsed: list[int] = []

        def reading(real: Callable[..., Any]) -> Callable[..., Any]:
            def read(content: str, *rest: str) -> Any:
                parsed.append(len(content))
                return real(content if len(content) < 1 << 20 else content[:1000], *rest)

            return read

        with pytest.MonkeyPatch.context() as patch:
            for function in ("parse", "read_launches"):
                patch.setattr(sanitizer_log, function, reading(getattr(sanitizer_log, function)))
            with contextlib.suppress(EvidenceError):
                run.is_green(source)
        return max(parsed, default=0) > 8 << 20

    return Attack(name=f"log: {name}", attempt=attempt)


def version(text: str) -> Attack:
    """Name a version of the sanitizer that is no number. True if the gate ends with a traceback, or takes it."""
    tools = {**dict(run.RUN.evidence.provenance.tools), "compute-sanitizer": text}
    provenance = replace(run.RUN.evidence.provenance, tools=tuple(tools.items()))
    source = replace(run.RUN, evidence=replace(run.RUN.evidence, provenance=provenance))

    def attempt(_: Path) -> bool:
        try:
            return run.is_green(source)
        except ValueError:
            return True

    return Attack(name=f"version: {text[:20]!r}", attempt=attempt)


def traces(name: str, count: int) -> Attack:
    """Let every workload name the same results, so that each is parsed once per workload."""
    text = json.dumps({"outcomes": {f"w{number}": {"blocks": [[0, 1, 2]]} for number in range(count)}}).encode()
    timed = [
        make_observation(Kind.TIMING, f"w{number}", artifacts=(f"x/timing/process-{number % 3}.json",)) for number in range(count)
    ]
    files = {f"x/timing/process-{number}.json": text + b" " * number for number in range(3)}

    def attempt(_: Path) -> bool:
        asked: list[int] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dossier, "loads", lambda data: asked.append(1) or json.loads(data))
            clocks = CACHE(dossier._read_clocks)
            found = [trace for each in timed for trace in dossier.traces(each, files, clocks)]
        return len(found) == count and len(asked) > len(files)

    return Attack(name=f"traces: {name}", attempt=attempt)


CACHE = dossier.cache


def member(numbers: random.Random) -> Attack:
    bomb = numbers.choice([10 ** numbers.randrange(25, 900), -(10 ** numbers.randrange(309, 800))])
    digits = numbers.choice(["²", "x", "", "1e3", "0x7ea", "20 26"])
    makers: tuple[Callable[[], Attack], ...] = (
        lambda: result(f"a number of {len(str(bomb))} digits", document(str(bomb))),
        lambda: result("a key twice", document(f'{numbers.random()}, "ms": 1.0')),
        lambda: result("true", document("true")),
        lambda: version(f"{digits}.{numbers.randrange(9)}{numbers.choice(['', '.1', 'x'])}"),
        lambda: log("spaces", run.LIST, " " * ((8 << 20) + numbers.randrange(1, 999))),
        lambda: traces("random", numbers.randrange(5, 20)),
    )
    return numbers.choice(makers)()


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files as before: whole, with Python's own parser, and believing every number."""
    monkeypatch.setattr(process_results, "loads", json.loads)
    monkeypatch.setattr(process_results, "MAX_RECORD", 1 << 40)
    monkeypatch.setattr(process_results, "bool", type("Nothing", (), {}), raising=False)
    monkeypatch.setattr(rederive, "MAX_LOG", 1 << 40)

    def is_too_old(text: str) -> bool:
        numbers = tuple(int(part) for part in text.split(".")[:2]) if text else ()
        return not numbers >= sanitizer.FLOOR

    monkeypatch.setattr(sanitizer, "is_too_old", is_too_old)
    monkeypatch.setitem(globals(), "CACHE", lambda function: function)


ATTACKS = (
    result("a number of 400 digits", document(HUGE)),
    result("minus a number of 400 digits", document(f"-{HUGE}")),
    result("true for one", document("true")),
    result("the right number after a wrong one", document('7.0, "ms": 1.0')),
    result("a second list of outcomes", '{"outcomes": {}, ' + document("1.0")[1:]),
    result("a million lists", document("1.0")[:-1] + ', "x": [' + "[]," * values.MAX_CONTAINERS + "[]]}"),
    result("a file of 17 MB", document("1.0") + " " * (17 << 20)),
    log("a launch list of 9 MB", run.LIST, run.HEADER + "=========\n" * 900_000),
    log("a log of 9 MB", f"{run.LOGS}/memcheck.log", run.HEADER + "=========\n" * 900_000),
    log("a control of 9 MB", f"{run.LOGS}/control-memcheck.log", " " * (9 << 20)),
    version("2026.x"),
    version("x.4"),
    version("²026.4"),
    version("2026."),
    version("2026.4e9"),
    version("nan.inf"),
    traces("60 workloads, three results", 60),
)
CLASS = AttackClass(name="files of a run that end the gate", attacks=ATTACKS, member=member, mutant=mutant)
