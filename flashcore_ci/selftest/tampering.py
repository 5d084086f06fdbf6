"""Tamper with evidence as a bad disk, a mistake or a forger would."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.adapters import clock, sanitizer
from flashcore_ci.collect import child
from flashcore_ci.collect.sanitizer import between_marks, count_checked
from flashcore_ci.model.codes import PASSING
from flashcore_ci.model.errors import EvidenceError, UsageError
from flashcore_ci.model.evidence import Evidence, Observation
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Measured, Reading
from flashcore_ci.model.suite import Kind, Trust
from flashcore_ci.model.verdict import Outcome, Report
from flashcore_ci.selftest.model import REFUSED, Defect, Detection
from flashcore_ci.store.codec import encode
from flashcore_ci.store.manifest import EVIDENCE, MANIFEST, manifest_of
from flashcore_ci.store.run import Run, read_run

ACCEPTED = "accepted"
NOTHING_GREEN = "nothing green to tamper with"
REPORTS = "artifacts/profile/"
LAUNCH_LIST = "artifacts/sanitizer/roll-call.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodRun:
    """A good run. Copies are altered in ``scratch``."""

    files: dict[str, bytes]
    run: Run
    scratch: Path
    judge: Callable[[Evidence], Report]
    judge_plan: Callable[[Plan, Evidence], Report]

    def read(self, files: dict[str, bytes]) -> Run:
        """Read a run from these files."""
        folder = self.scratch / f"altered-{len(list(self.scratch.iterdir()))}"
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return read_run(folder)

    def profiler_report(self) -> str:
        """Name a profiler's report."""
        return next(name for name in sorted(self.files) if name.startswith(REPORTS))

    def green_check(self, gate: str) -> tuple[Kind, str]:
        """Find a green check of this gate. LookupError when there is none."""
        for verdict in self.judge(self.run.evidence).verdicts:
            if verdict.gate == gate and verdict.outcome is Outcome.PASS:
                return verdict.evidence, verdict.target
        raise LookupError(gate)


def seal(files: dict[str, bytes]) -> dict[str, bytes]:
    """Give the files a manifest that fits them."""
    members = {name: data for name, data in files.items() if name != MANIFEST}
    return {**members, MANIFEST: encode(manifest_of(sorted(members.items())))}


def detect(defect: Defect, good: GoodRun) -> Detection:
    """Tamper with a copy. UsageError for an unknown tampering."""
    tamper = TAMPERINGS.get(defect.tampering)
    if tamper is None:
        raise UsageError(f"{defect.name}: unknown damage {defect.tampering!r}", fix=f"use one of {', '.join(TAMPERINGS)}")
    began = clock.monotonic()
    try:
        reason = tamper(good, defect.gate)
    except EvidenceError:
        reason = REFUSED
    except LookupError:
        reason = NOTHING_GREEN
    red = reason not in {ACCEPTED, NOTHING_GREEN} and reason not in PASSING
    return Detection(defect=defect, reason=reason, red=red, seconds=clock.monotonic() - began)


def _altered_report(alter: Callable[[bytes], bytes]) -> Callable[[GoodRun, str], str]:
    def tamper(good: GoodRun, gate: str) -> str:  # noqa: ARG001 - every tampering has this signature
        good.read({**good.files, good.profiler_report(): alter(good.files[good.profiler_report()])})
        return ACCEPTED

    return tamper


def _forged_number(good: GoodRun, gate: str) -> str:  # noqa: ARG001 - every tampering has this signature
    text = good.files[EVIDENCE].decode()
    forged = re.sub(r'("value": )(\d)', lambda found: f"{found[1]}{(int(found[2]) + 1) % 10}", text, count=1)
    good.read({**good.files, EVIDENCE: forged.encode()})
    return ACCEPTED


def _older_schema(good: GoodRun, gate: str) -> str:  # noqa: ARG001 - every tampering has this signature
    older = {**json.loads(good.files[EVIDENCE]), "schema": "evidence-v0"}
    good.read(seal({**good.files, EVIDENCE: json.dumps(older).encode()}))
    return ACCEPTED


def _altered_observation(alter: Callable[[Observation], tuple[Observation, ...]]) -> Callable[[GoodRun, str], str]:
    def tamper(good: GoodRun, gate: str) -> str:
        """Change the observation of a green check, reseal, and return the gate's new reason."""
        kind, target = good.green_check(gate)
        changed: list[Observation] = []
        for old in good.run.evidence.observations:
            changed += alter(old) if (old.kind, old.target) == (kind, target) else (old,)
        data = encode(replace(good.run.evidence, observations=tuple(changed)))
        report = good.judge(good.read(seal({**good.files, EVIDENCE: data})).evidence)
        return next(v.reason.code for v in report.verdicts if (v.gate, v.target) == (gate, target))

    return tamper


def _not_isolated(good: GoodRun, gate: str) -> str:
    """Judge a green check as if its subject were not trusted. It was measured without isolation."""
    _, target = good.green_check(gate)
    descriptions = tuple(replace(description, trust=Trust.NONE) for description in good.run.plan.descriptions)
    report = good.judge_plan(replace(good.run.plan, descriptions=descriptions), good.run.evidence)
    return next(v.reason.code for v in report.verdicts if (v.gate, v.target) == (gate, target))


def _wrong_kernel(good: GoodRun, gate: str) -> str:
    """Rename the kernels in the sanitizer's launch list."""
    _, target = good.green_check(gate)
    index = [workload.id for workload in good.run.plan.workloads_for(Kind.SANITIZER)].index(target)
    workload = good.run.plan.workloads_for(Kind.SANITIZER)[index]
    entries = good.run.plan.description(workload.subject).problem(target).entries
    text = good.files[LAUNCH_LIST].decode()
    for entry in entries:
        text = text.replace(f"Kernel: {entry}\n", f"Kernel: {entry}_of_another_subject\n")
    return _code(count_checked(between_marks(sanitizer.parse_launches(text), index), entries))


def _cut_log(good: GoodRun, gate: str) -> str:
    """End the log of a clean check before its summary."""
    _, target = good.green_check(gate)
    text = good.files[f"artifacts/sanitizer/{gate}-{target}.log"].decode()
    log = sanitizer.parse(text[: text.index("SUMMARY")], gate)
    return _code(sanitizer.read_findings(log, returncode=0, version=sanitizer.FLOOR_TEXT, ran=True))


def _leftover_result(good: GoodRun, gate: str) -> str:  # noqa: ARG001 - every tampering has this signature
    """Leave a result of an earlier job where the worker writes its own."""
    file = good.scratch / "result.json"
    leftover = {"schema": "result-v1", "kind": "correctness", "nonce": "earlier", "job": "0" * 64}
    file.write_text(json.dumps({**leftover, "environment": {}, "outcomes": {}, "finished": True, "started": None}), "utf-8")
    result = child.read_result(file, kind="correctness", nonce="later", job="1" * 64, began=0.0)
    return ACCEPTED if isinstance(result, dict) else result.code


def _code(reading: Reading) -> str:
    return ACCEPTED if isinstance(reading, Measured) else reading.code


TAMPERINGS: dict[str, Callable[[GoodRun, str], str]] = {
    "truncated-report": _altered_report(lambda data: data[: len(data) // 2]),
    "flipped-report": _altered_report(lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "empty-report": _altered_report(lambda _: b""),
    "foreign-report": _altered_report(lambda data: data[::-1]),
    "stale-digest": _altered_observation(lambda old: (replace(old, identity=replace(old.identity, machine_code="0" * 64)),)),
    "forged-number": _forged_number,
    "older-schema": _older_schema,
    "wrong-kernel": _wrong_kernel,
    "not-isolated": _not_isolated,
    "missing-workload": _altered_observation(lambda _: ()),
    "cut-log": _cut_log,
    "leftover-result": _leftover_result,
}
