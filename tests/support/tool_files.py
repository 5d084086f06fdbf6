"""A small run with the files of its tools: two workloads under four sanitizers, and one profile.

``RUN`` is green. A test alters its files or its evidence, and asks whether ``is_green``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from evidence_factories import good_observation, make_evidence
from factories import SOL_DRAM, make_build, make_check, make_gate, make_plan
from report_factories import RECORDED

from flashcore_ci.adapters import ncu
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured, Missing, Reading
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Outcome, Report, StalePolicy
from flashcore_ci.run import rederive
from flashcore_ci.run.profiler_reports import ReadReport

HEADER, BLANK = "========= COMPUTE-SANITIZER\n", "========= \n"
NO_ERRORS, NO_RACES = "ERROR SUMMARY: 0 errors", "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"
LOGS = "artifacts/sanitizer"
LIST = f"{LOGS}/roll-call.log"
REPORT = "artifacts/profile/report-0.ncu-rep"
WORKLOADS = ("big", "small")
ENTRY = "scale_f32"
CHECKS = (
    *(
        make_check(make_gate(check, evidence=Kind.SANITIZER, metric=f"{check}/findings"), target)
        for check in SANITIZER_TOOLS
        for target in WORKLOADS
    ),
    make_check(SOL_DRAM, "big"),
)
PLAN = make_plan(CHECKS)
BUILDS = (make_build(),)
NOON = "2026-11-21T12:00:00Z"
Alter = Callable[[Source], Source]


def count(value: float) -> Measured:
    return Measured(value=float(value), unit="count")


def clean(check: str) -> str:
    """The log of a clean check."""
    return f"{HEADER}========= {NO_RACES if check == 'racecheck' else NO_ERRORS}\n"


def control(check: str, kernel: str = "") -> str:
    """The log of a planted bug that was reported."""
    kernel = kernel or f"flashcore_ci_control_{check}"
    if check == "racecheck":
        race = f"Error: Race reported between Write access at {kernel}+0xa0\n=========     and Read access at {kernel}+0xb0 [256 hazards]"
        return f"{HEADER}========= {race}\n{BLANK}========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"
    finding = f"Invalid __global__ write of size 4 bytes\n=========     at {kernel}+0x60\n=========     by thread (0,0,0) in block (0,0,0)"
    return f"{HEADER}========= {finding}\n{BLANK}========= ERROR SUMMARY: 1 error\n"


def listing(*launches: tuple[str, int, bool]) -> str:
    """A launch list of (kernel, width of the grid, checked)."""
    text = HEADER
    for number, (kernel, width, checked) in enumerate(launches, 1):
        filtered = "" if checked else " (filtered: not in include list)"
        text += f"========= Launch #{number}{filtered}\n=========   Kernel: {kernel}\n=========   Grid:   ({width}, 1, 1)\n"
        text += f"=========   Block:  (1, 1, 1)\n=========   Stream: 0x0\n{BLANK}"
    return f"{text}========= ERROR SUMMARY: {len(launches)} error{'s' if len(launches) != 1 else ''}\n"


def marked(index: int, kernel: str = ENTRY, launches: int = 2) -> tuple[tuple[str, int, bool], ...]:
    """A workload's launches between its marks."""
    marks = (("flashcore_ci_begin", index + 1, False), ("flashcore_ci_end", index + 1, False))
    return (marks[0], *((kernel, 64, True),) * launches, marks[1])


def report(share: float = 91.5, workload: str = "big", kernel: str = ENTRY) -> bytes:
    """A stand-in of a profiler's report: what ncu's reader prints about it."""
    shares = {metric.sources[0]: (share, "%") for metric in ncu.NCU_METRICS if metric.share}
    metrics = {**shares, "sm__cycles_elapsed.max": (1000.0, "cycle"), ncu.DURATION: (5000.0, "ns")}
    return json.dumps([{"workload": workload, "kernel": kernel, "metrics": metrics}]).encode()


class Reports:
    """Reads the stand-ins as ``ProfilerReports`` reads reports."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files

    def last_with(self, workload: str, root: str = "artifacts") -> ReadReport:
        names = sorted(name for name in self.files if name.endswith(".ncu-rep"))
        if not names:
            return ReadReport(name="", file="report", actions=Missing(code=Code.NO_TOOL_FILE, message="no report"))
        read = {name: ncu.parse_actions(self.files[name].decode("utf-8", errors="replace")) for name in names}
        holding = [name for name, actions in read.items() if any(action.workload == workload for action in actions)]
        name = (holding or names)[-1]
        return ReadReport(name=name, file=name, actions=read[name])


def _observation(kind: Kind, target: str, readings: Mapping[str, Reading], *artifacts: str) -> Observation:
    return good_observation(PLAN, BUILDS[0], kind, target, readings=tuple(readings.items()), artifacts=artifacts)


def _run() -> Source:
    files = {f"{LOGS}/{check}.log": clean(check) for check in SANITIZER_TOOLS}
    files |= {f"{LOGS}/control-{check}.log": control(check) for check in SANITIZER_TOOLS}
    files[LIST] = listing(("fill", 8, False), *marked(0), *marked(1), ("copy", 1, False))
    readings = {
        f"{check}/{metric}": count(value) for check in SANITIZER_TOOLS for metric, value in (("findings", 0), ("launches", 2))
    }
    logs = [f"{LOGS}/{check}.log" for check in SANITIZER_TOOLS]
    found = ncu.make_readings(ncu.parse_actions(report().decode()), "big", (ENTRY,))
    assert isinstance(found, dict)
    observations = (
        *(_observation(Kind.SANITIZER, target, readings, *logs) for target in WORKLOADS),
        _observation(Kind.PROFILE, "big", found, REPORT),
    )
    contents = {**{name: text.encode() for name, text in files.items()}, REPORT: report()}
    return Source(origin=RECORDED, evidence=make_evidence(builds=BUILDS, observations=observations), files=contents)


RUN = _run()


def with_file(source: Source, name: str, content: str | bytes | None) -> Source:
    """The run with another file, or without it (None)."""
    data = content.encode() if isinstance(content, str) else content
    rest = {other: old for other, old in source.files.items() if other != name}
    return replace(source, files=rest if data is None else {**rest, name: data})


def with_observation(source: Source, kind: Kind, target: str, change: Callable[[Observation], Observation]) -> Source:
    """The run with another observation."""
    changed = tuple(
        change(observation) if (observation.kind, observation.target) == (kind, target) else observation
        for observation in source.evidence.observations
    )
    return replace(source, evidence=replace(source.evidence, observations=changed))


def with_number(source: Source, kind: Kind, target: str, metric: str, value: float) -> Source:
    """The run whose evidence says another number."""

    def change(observation: Observation) -> Observation:
        readings = dict(observation.readings)
        readings[metric] = replace(readings[metric], value=value)
        return replace(observation, readings=tuple(readings.items()))

    return with_observation(source, kind, target, change)


def report_on(source: Source) -> Report:
    """Derive the readings again, and judge."""
    checked = rederive.rederived(source, PLAN, Reports(source.files))
    return judge(PLAN, BUILDS, (checked,), waivers=(), as_of=NOON, stale=StalePolicy.BLOCK, tool="test")


def is_green(source: Source) -> bool:
    """Tell whether the gate passes this run."""
    try:
        return report_on(source).outcome is Outcome.PASS
    except EvidenceError:
        return False
