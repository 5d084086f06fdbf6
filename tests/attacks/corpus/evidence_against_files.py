"""evidence.json says what the tools' files do not say, under a manifest that fits."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import tool_files as run
from attacking import Attack, AttackClass
from tool_files import LIST, LOGS, REPORT, RUN, with_file, with_number, with_observation

from flashcore_ci.judge.judge import Source
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import rederive

SECOND = REPORT.replace("report-0", "report-1")


def attack(name: str, source: Source) -> Attack:
    return Attack(name=name, attempt=lambda _: run.is_green(source))


def found(check: str, target: str = "") -> Source:
    """A log with a finding in our kernel, and evidence without it."""
    return with_file(RUN, f"{LOGS}/{check}{f'-{target}' if target else ''}.log", run.control(check, run.ENTRY))


def listed(*launches: tuple[str, int, bool]) -> Source:
    return with_file(RUN, LIST, run.listing(*launches))


def profiled(content: bytes | None) -> Source:
    return with_file(RUN, REPORT, content)


def without_artifacts(kind: Kind) -> Source:
    return with_observation(RUN, kind, "big", lambda old: replace(old, artifacts=()))


def with_sanitizer(version: str) -> Source:
    tools = {**dict(RUN.evidence.provenance.tools), "compute-sanitizer": version}
    provenance = replace(RUN.evidence.provenance, tools=tuple(tools.items()))
    return replace(RUN, evidence=replace(RUN.evidence, provenance=provenance))


def exchanged(first: str, second: str) -> Source:
    return with_file(with_file(RUN, first, RUN.files[second]), second, RUN.files[first])


CONTROL = f"{LOGS}/control-racecheck.log"
ATTACKS = (
    *(attack(f"{check} found an error, the evidence says none", found(check)) for check in SANITIZER_TOOLS),
    attack("a finding of one workload alone is denied", found("memcheck", "small")),
    attack("a finding of a second process is denied", with_file(found("initcheck", "big"), f"{LOGS}/initcheck.log", None)),
    attack("a log was removed", with_file(RUN, f"{LOGS}/synccheck.log", None)),
    attack("a log was emptied", with_file(RUN, f"{LOGS}/synccheck.log", b"")),
    attack("a log was cut", with_file(RUN, f"{LOGS}/synccheck.log", run.clean("synccheck")[:40])),
    attack("a log is of another check", exchanged(f"{LOGS}/racecheck.log", f"{LOGS}/synccheck.log")),
    attack("a control was removed", with_file(RUN, CONTROL, None)),
    attack("a control was missed", with_file(RUN, CONTROL, run.clean("racecheck"))),
    attack("a control reports another kernel", with_file(RUN, CONTROL, run.control("racecheck", "another"))),
    attack("the controls of two checks were exchanged", exchanged(f"{LOGS}/control-racecheck.log", f"{LOGS}/control-memcheck.log")),
    attack("the observation names no log", without_artifacts(Kind.SANITIZER)),
    attack("the sanitizer has no version", with_sanitizer("")),
    attack("the sanitizer is too old", with_sanitizer("2025.3.1")),
    attack("the launch list was removed", with_file(RUN, LIST, None)),
    attack("the launch list is of another kernel", listed(*run.marked(0, "scale_f16"), *run.marked(1, "scale_f16"))),
    attack("the kernel was launched once", listed(*run.marked(0, launches=1), *run.marked(1))),
    attack("one workload was never launched", listed(*run.marked(0))),
    attack("the filter left out the kernel", with_file(RUN, LIST, run.listing(*((name, width, False) for name, width, _ in (*run.marked(0), *run.marked(1)))))),
    attack("more launches than the list has", with_number(RUN, Kind.SANITIZER, "big", "memcheck/launches", 20)),
    attack("the report shows a lower share", profiled(run.report(71.0))),
    attack("the report shows a slightly lower share", profiled(run.report(91.4999))),
    attack("the report was removed", profiled(None)),
    attack("the report was emptied", profiled(b"")),
    attack("the report was cut", profiled(run.report()[:50])),
    attack("the report is of another workload", profiled(run.report(workload="small"))),
    attack("the report is of another kernel", profiled(run.report(kernel="cublas"))),
    attack("the report is a log", profiled(RUN.files[LIST])),
    attack("the better one of two reports", with_file(RUN, SECOND, run.report(60.0))),
    attack("the observation names no report", without_artifacts(Kind.PROFILE)),
    attack("the share was raised", with_number(profiled(run.report(60.0)), Kind.PROFILE, "big", "sol/dram", 100.0)),
)  # fmt: skip


def member(numbers: random.Random) -> Attack:
    """Alter one number or one file at random."""
    check, target = numbers.choice(SANITIZER_TOOLS), numbers.choice(run.WORKLOADS)
    log = f"{LOGS}/{check}.log"
    share = numbers.choice([numbers.uniform(0, 91.4), numbers.uniform(91.6, 110)])
    text = RUN.files[log].decode()
    names = sorted(RUN.files)
    kinds: tuple[Callable[[], Source], ...] = (
        lambda: found(check, numbers.choice(["", target])),
        lambda: with_file(RUN, log, text[: numbers.randrange(len(text))]),
        lambda: with_file(RUN, numbers.choice(names), None),
        lambda: with_file(RUN, numbers.choice(names), numbers.randbytes(numbers.randint(0, 200))),
        lambda: profiled(run.report(share)),
        lambda: with_number(RUN, Kind.PROFILE, "big", "sol/dram", numbers.uniform(92, 110)),
        lambda: with_number(RUN, Kind.SANITIZER, target, f"{check}/launches", numbers.randint(3, 99)),
        lambda: with_file(RUN, SECOND, run.report(share)),
        lambda: exchanged(LIST, numbers.choice([name for name in names if name != LIST])),
        lambda: profiled(run.report()[: numbers.randint(1, 100)]),
    )
    kind = numbers.randrange(len(kinds))
    return attack(f"kind {kind} on {check} of {target}", kinds[kind]())


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe evidence.json."""
    monkeypatch.setattr(rederive, "rederived", lambda source, *_: source)


CLASS = AttackClass(name="evidence that its own files deny", attacks=ATTACKS, member=member, mutant=mutant)
