"""Derive readings again from the tools' own files of a run.

A run whose evidence disagrees with them is refused. A reading without its file is missing. Correctness has no file, and times have the
worker's own (docs/trust.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from flashcore_ci.adapters import ncu, ncu_page, sanitizer, sanitizer_log
from flashcore_ci.adapters.sanitizer_log import Log
from flashcore_ci.bounded.files import MAX_LOG
from flashcore_ci.collect.positive_control import why_unreported
from flashcore_ci.collect.sanitizer import LAUNCH_LIST, PARTS, between_marks, count_checked
from flashcore_ci.judge.judge import Source
from flashcore_ci.model.codes import Code
from flashcore_ci.model.coverage import foreign_entries
from flashcore_ci.model.evidence import Evidence, Finding, Observation
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Measured, Missing, Reading
from flashcore_ci.model.suite import Kind
from flashcore_ci.run.process_results import ProcessResults, refuse
from flashcore_ci.run.profiler_reports import PAGE, ProfilerReports
from flashcore_ci.store.manifest import ARTIFACTS

ROOT = re.compile(
    r"(artifacts(?:/shard-[0-9]{1,4})?(?:/base-subject)?(?:/gpus-[0-9])?)/(?:sanitizer|profile|timing|comparison)/[^/]+"
)
"""A tool's file, in the folder of the session that wrote it: the run, a shard, or the judgement with the base's subject files."""
TIMED_KINDS = frozenset({Kind.TIMING, Kind.COMPARISON})
DERIVED_KINDS = frozenset({Kind.SANITIZER, Kind.PROFILE}) | TIMED_KINDS

Files = Mapping[str, bytes]
Derived = dict[str, tuple[str, Reading]]
"""The file and the reading by metric."""


class SanitizerFiles:
    """The logs of one session, and what they say about each workload. Each is parsed once."""

    def __init__(self, files: Files, evidence: Evidence, root: str) -> None:
        self.files = files
        self.logs = f"{root}/sanitizer"
        observed = (one for one in evidence.observations if one.kind is Kind.SANITIZER and one.missing is None)
        self.targets = [observation.target for observation in observed if root_of(observation) == root]
        self.version = dict(evidence.provenance.tools).get("compute-sanitizer", "")
        self._log = cache(lambda name, check: sanitizer_log.parse(self._text(name), check))
        self._list = cache(lambda name: sanitizer_log.read_launches(self._text(name)))
        self._marks = cache(lambda name: sanitizer_log.marks_of(self._list(name)))
        self._control = cache(self._missed_control)

    def derive(self, observation: Observation, entries: Sequence[str], foreign: Mapping[str, str]) -> Derived:
        """Derive the readings of one workload. EvidenceError if other findings are recorded than a log holds."""
        listed, count = self._launches(observation.target, entries, foreign)
        derived: Derived = {}
        for check in SANITIZER_TOOLS:
            name = self._name(check, observation)
            log = self._log(name, check)
            reading = (
                sanitizer.read_findings(log, returncode=0, version=self.version, ran=True) if name else _absent(f"{check}.log")
            )
            if reading == Measured(value=0.0, unit="count"):
                reading = count if isinstance(count, Missing) else self._control(check) or reading
            elif isinstance(reading, Measured):
                _require_same_findings(observation, check, log, name)
            derived[f"{check}/findings"] = (name or f"{self.logs}/{check}.log", reading)
            derived[f"{check}/launches"] = (listed, reading if isinstance(reading, Missing) else sanitizer.why_cut(log) or count)
        return derived

    def _name(self, check: str, observation: Observation) -> str:
        """Name the log of this check: the one of the workload alone, else the one that the observation names."""
        groups = (*(f"{check}{part}" for part in PARTS), *((f"{check}-bulk",) if check in sanitizer.GLOBAL_ONLY else ()))
        alone = [name for group in groups if (name := f"{self.logs}/{group}-{observation.target}.log") in self.files]
        shared = [
            name for group in groups if (name := f"{self.logs}/{group}.log") in self.files and name in observation.artifacts
        ]
        return next(iter((*alone, *shared)), "")

    def _launches(self, target: str, entries: Sequence[str], foreign: Mapping[str, str]) -> tuple[str, Reading]:
        """Count the launches that the tool checked between this workload's marks."""
        alone, together = f"{self.logs}/{LAUNCH_LIST}-{target}.log", f"{self.logs}/{LAUNCH_LIST}.log"
        name = alone if alone in self.files else together
        if name not in self.files:
            return name, _absent(name)
        index = 0 if name == alone else self.targets.index(target)
        return name, count_checked(between_marks(self._list(name), index, self._marks(name)), entries, foreign)

    def _missed_control(self, check: str) -> Missing | None:
        """Return why the planted bug of this check was not reported."""
        name = f"{self.logs}/control-{check}.log"
        if name not in self.files:
            return _absent(name)
        wrong = why_unreported(self._log(name, check), f"flashcore_ci_control_{check}", sanitizer.ERROR_EXIT)
        return Missing(code=Code.CONTROL_FAILED, message=f"{name}: {wrong}") if wrong else None

    def _text(self, name: str) -> str:
        data = self.files.get(name, b"")
        if len(data) > MAX_LOG:
            refuse(f"{name} has {len(data)} bytes, and {MAX_LOG} are allowed")
        return data.decode("utf-8", errors="replace")


def rederived(source: Source, plan: Plan, reports: ProfilerReports) -> Source:
    """Return ``source`` with what its files say. EvidenceError if its evidence says another number.

    Only targets of ``plan`` are judged, so only they are derived.
    """
    entries = {problem.workload: problem.entries for description in plan.descriptions for problem in description.problems}
    foreign = _foreign_by_workload(plan)
    logs = cache(lambda root: SanitizerFiles(source.files, source.evidence, root))
    results = ProcessResults(source.files)
    observations = []
    for observation in source.evidence.observations:
        needed = entries.get(observation.target)
        if needed is None or observation.missing is not None or observation.kind not in DERIVED_KINDS:
            observations.append(observation)
            continue
        if observation.kind in TIMED_KINDS:
            observations.append(replace(observation, missing=results.check(observation)))
            continue
        is_sanitizer = observation.kind is Kind.SANITIZER
        derived = (
            logs(root_of(observation)).derive(observation, needed, foreign[observation.target])
            if is_sanitizer
            else _profile(observation, needed, reports)
        )
        readings = tuple((metric, _agreed(observation, metric, reading, derived)) for metric, reading in observation.readings)
        observations.append(replace(observation, readings=readings))
    return replace(source, evidence=replace(source.evidence, observations=tuple(observations)))


def _foreign_by_workload(plan: Plan) -> dict[str, dict[str, str]]:
    manifest = plan.manifest
    return {
        problem.workload: foreign_entries(manifest, description.subject, problem.entries)
        for description in plan.descriptions
        for problem in description.problems
    }


def root_of(observation: Observation) -> str:
    """Return the folder of the session that measured this. EvidenceError for files of two sessions."""
    roots = sorted({match[1] for name in observation.artifacts if (match := ROOT.fullmatch(name))})
    if len(roots) > 1:
        refuse(f"{observation.kind} of {observation.target} names files in {roots[0]} and in {roots[1]}")
    return roots[0] if roots else ARTIFACTS


def _profile(observation: Observation, entries: Sequence[str], reports: ProfilerReports) -> Derived:
    """Derive a profile from the last report that holds the workload."""
    metrics = [metric for metric, _ in observation.readings]
    report = reports.last_with(observation.target, root_of(observation))
    found = (
        report.actions if isinstance(report.actions, Missing) else ncu.make_readings(report.actions, observation.target, entries)
    )
    if isinstance(found, Missing):
        return dict.fromkeys(metrics, (report.file, found))
    if report.name not in observation.artifacts:
        named = ", ".join(observation.artifacts) or "none"
        refuse(f"{report.name} is the last report of {observation.target}, and evidence.json names {named}")
    return {metric: (report.file, reading) for metric, reading in found.items()}


def _agreed(observation: Observation, metric: str, recorded: Reading, derived: Derived) -> Reading:
    """Return the reading that both agree on, or what is missing. EvidenceError for two numbers."""
    if isinstance(recorded, Missing):
        return recorded
    file, reading = derived.get(metric, (observation.kind, Missing(code=Code.METRIC_ABSENT, message=f"no tool reports {metric}")))
    said = f"evidence.json says {recorded.value!r} {recorded.unit}"
    if isinstance(reading, Missing):
        return replace(reading, message=f"{file}: {reading.message} ({said})")
    if reading != recorded and not (file.endswith(PAGE) and ncu_page.is_rounded(reading, recorded)):
        message = f"{file}: {metric} of {observation.target} is {reading.value!r} {reading.unit}, and {said}"
        refuse(message)
    return recorded


def _require_same_findings(observation: Observation, check: str, log: Log, name: str) -> None:
    if isinstance(dict(observation.readings).get(f"{check}/findings"), Missing):
        return  # it stays missing, whatever the log says today
    recorded = [finding for finding in observation.findings if finding.tool == check]
    for there, here in zip(recorded, log.findings, strict=False):
        same_file = here.file == there.file or here.file.endswith(f"/{there.file}")
        if not same_file or replace(here, file=there.file) != there:
            refuse(f"{name}: it holds {_words(here)}, and evidence.json says {_words(there)}")
    if len(recorded) != len(log.findings):
        message = f"{name}: {check} of {observation.target} has {len(log.findings)} findings, and evidence.json {len(recorded)}"
        refuse(message)


def _words(finding: Finding) -> str:
    return f"{finding.count} x {finding.message!r} in {finding.kernel or '?'} at {finding.file or '?'}:{finding.line}"


def _absent(name: str) -> Missing:
    return Missing(code=Code.NO_TOOL_FILE, message=f"the run does not hold {name}")
