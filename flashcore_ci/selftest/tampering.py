"""Tamper with evidence as a bad disk, a mistake or a forger would."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from flashcore_ci.adapters import clock
from flashcore_ci.collect import child
from flashcore_ci.model.codes import PASSING, Code
from flashcore_ci.model.errors import EvidenceError, UsageError
from flashcore_ci.model.evidence import Observation, Shard
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import Trust, Waiver
from flashcore_ci.plan.shards import units_digest, units_of
from flashcore_ci.run import merge
from flashcore_ci.selftest import look_alikes, lowered_bar
from flashcore_ci.selftest.good_run import GoodRun, seal
from flashcore_ci.selftest.model import REFUSED, Defect, Detection
from flashcore_ci.store import statement
from flashcore_ci.store.codec import encode
from flashcore_ci.store.manifest import EVIDENCE

ACCEPTED = "accepted"
NOTHING_GREEN = "nothing green to tamper with"
LOGS = "artifacts/sanitizer/"
LAUNCH_LISTS = f"{LOGS}roll-call"


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
    except (LookupError, StopIteration):  # of a run that was cut short
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


def _replaced_evidence(good: GoodRun, gate: str) -> str:  # noqa: ARG001 - every tampering has this signature
    """Put other evidence with a fitting manifest under the statement of the good run."""
    files = seal({**good.files, EVIDENCE: encode(replace(good.run.evidence, notes=("forged",)))})
    given, right = (
        statement.statement_of(run, of, bundle="", toolchain="", commit="0" * 40)
        for run, of in ((good.run, good.files), (good.read(files), files))
    )
    return REFUSED if statement.differences(given, right) else ACCEPTED


def _older_schema(good: GoodRun, gate: str) -> str:  # noqa: ARG001 - every tampering has this signature
    older = {**json.loads(good.files[EVIDENCE]), "schema": "evidence-v0"}
    good.read(seal({**good.files, EVIDENCE: json.dumps(older).encode()}))
    return ACCEPTED


def _judge_again(good: GoodRun, files: dict[str, bytes], gate: str, target: str) -> str:
    """Judge these files with a manifest that fits, and return the reason of one check."""
    report = good.judge(good.read(seal({**good.files, **files})))
    return next(v.reason.code for v in report.verdicts if (v.gate, v.target) == (gate, target))


def _altered_observation(alter: Callable[[Observation], tuple[Observation, ...]]) -> Callable[[GoodRun, str], str]:
    def tamper(good: GoodRun, gate: str) -> str:
        """Change the observation of a green check, reseal, and return the gate's new reason."""
        kind, target = good.green_check(gate)
        changed: list[Observation] = []
        for old in good.run.evidence.observations:
            changed += alter(old) if (old.kind, old.target) == (kind, target) else (old,)
        data = encode(replace(good.run.evidence, observations=tuple(changed)))
        return _judge_again(good, {EVIDENCE: data}, gate, target)

    return tamper


def _altered_provenance(**changes: Any) -> Callable[[GoodRun, str], str]:
    def tamper(good: GoodRun, gate: str) -> str:
        """Say that a green check was measured elsewhere, reseal, and return the gate's new reason."""
        _, target = good.green_check(gate)
        evidence = good.run.evidence
        device = replace(evidence.provenance.device, **changes.get("device", {})) if evidence.provenance.device else None
        provenance = replace(evidence.provenance, **{**changes, "device": device})
        return _judge_again(good, {EVIDENCE: encode(replace(evidence, provenance=provenance))}, gate, target)

    return tamper


def _number_against_its_file(old: Observation) -> tuple[Observation, ...]:
    """Record one more of everything than the tool's file says."""
    more = tuple((name, replace(r, value=r.value + 1) if isinstance(r, Measured) else r) for name, r in old.readings)
    return (replace(old, readings=more),)


def _altered_log(alter: Callable[[bytes], bytes]) -> Callable[[GoodRun, str], str]:
    def tamper(good: GoodRun, gate: str) -> str:
        """Change the log of a green check, reseal, and return the gate's new reason."""
        _, target = good.green_check(gate)
        name = next(name for name in (f"{LOGS}{gate}-{target}.log", f"{LOGS}{gate}.log") if name in good.files)
        return _judge_again(good, {name: alter(good.files[name])}, gate, target)

    return tamper


def _waived_crash(good: GoodRun, gate: str) -> str:
    """Let a green check crash under a waiver that names every code."""
    end = good.run.evidence.provenance.collected_at[:10]
    _, target = good.green_check(gate)
    waiver = Waiver(gate=gate, target=target, reason="planted", owner="the self-test", expires=end, codes=tuple(Code))
    return _blocking_reason(good, gate, Code.CRASH, (waiver,))


def _claimed_first_run(good: GoodRun, gate: str) -> str:
    """Let a missing reading say that its machine is the first of its kind."""
    return _blocking_reason(good, gate, Code.FIRST_RUN, ())


def _blocking_reason(good: GoodRun, gate: str, code: Code, waivers: tuple[Waiver, ...]) -> str:
    """Take the reading of a green check away, and return why the gate blocks."""
    kind, target = good.green_check(gate)
    missing, evidence = Missing(code=code, message="planted"), good.run.evidence
    changed = (
        replace(old, missing=missing) if (old.kind, old.target) == (kind, target) else old for old in evidence.observations
    )
    report = good.judge(replace(good.run, evidence=replace(evidence, observations=tuple(changed))), waivers)
    verdict = next(v for v in report.verdicts if (v.gate, v.target) == (gate, target))
    return verdict.reason.code if verdict.blocks else ACCEPTED


def _sealed_report(good: GoodRun, gate: str) -> str:
    """Cut the profiler's report, drop its page of text, and reseal."""
    _, target = good.green_check(gate)
    name = good.profiler_report()
    files = {**good.files, name: good.files[name][:1000]}
    report = good.judge(good.read(seal({file: data for file, data in files.items() if not file.endswith(".csv")})))
    return next(v.reason.code for v in report.verdicts if (v.gate, v.target) == (gate, target))


def _not_isolated(good: GoodRun, gate: str) -> str:
    """Judge a green check as if its subject were not trusted. It was measured without isolation."""
    _, target = good.green_check(gate)
    descriptions = tuple(replace(description, trust=Trust.NONE) for description in good.plan.descriptions)
    report = good.judge_plan(replace(good.plan, descriptions=descriptions), good.run)
    return next(v.reason.code for v in report.verdicts if (v.gate, v.target) == (gate, target))


def _other_sources(good: GoodRun, gate: str) -> str:
    """Judge a green check as if its kernel was compiled when it ran, after a file that it imports has changed."""
    kind, target = good.green_check(gate)
    of = next(check.subject for check in good.plan.checks if check.key == (gate, target))
    plan = replace(
        good.plan, descriptions=tuple(replace(d, build=None) if d.subject == of else d for d in good.plan.descriptions)
    )
    evidence = good.run.evidence
    builds = tuple(replace(b, binding="now", dependencies=(("torch", "1"),)) if b.subject == of else b for b in evidence.builds)
    seen = next(old for old in evidence.observations if (old.kind, old.target) == (kind, target))
    then = replace(seen, identity=replace(seen.identity, binding="then"))
    others = (old for old in evidence.observations if old is not seen)
    report = good.judge_plan(plan, replace(good.run, evidence=replace(evidence, builds=builds, observations=(then, *others))))
    return next(v.reason.code for v in report.verdicts if (v.gate, v.target) == (gate, target))


def _wrong_kernel(good: GoodRun, gate: str) -> str:
    """Rename a workload's kernels in the sanitizer's launch list, and reseal."""
    _, target = good.green_check(gate)
    workload = next(workload for workload in good.run.plan.workloads if workload.id == target)
    lists = {name: data.decode() for name, data in good.files.items() if name.startswith(LAUNCH_LISTS)}
    for entry in good.run.plan.description(workload.subject).problem(target).entries:
        lists = {
            name: text.replace(f"Kernel: {entry}\n", f"Kernel: {entry}_of_another_subject\n") for name, text in lists.items()
        }
    return _judge_again(good, {name: text.encode() for name, text in lists.items()}, gate, target)


def _leftover_result(good: GoodRun, gate: str) -> str:  # noqa: ARG001 - every tampering has this signature
    """Leave a result of an earlier job where the worker writes its own."""
    file = good.scratch / "result.json"
    leftover = {"schema": "result-v1", "kind": "correctness", "nonce": "earlier", "job": "0" * 64}
    file.write_text(json.dumps({**leftover, "environment": {}, "outcomes": {}, "finished": True, "started": None}), "utf-8")
    result = child.read_result(file, kind="correctness", nonce="later", job="1" * 64, began=0.0)
    return ACCEPTED if isinstance(result, dict) else result.code


def _piped_result(good: GoodRun, gate: str) -> str:  # noqa: ARG001 - every tampering has this signature
    """Put a pipe where the worker writes its result: a reader would wait for a writer."""
    os.mkfifo(good.scratch / "piped.json")
    result = child.read_result(good.scratch / "piped.json", kind="correctness", nonce="n", job="j", began=0.0)
    return ACCEPTED if isinstance(result, dict) else result.code


def _endless_text(good: GoodRun, gate: str) -> str:  # noqa: ARG001 - every tampering has this signature
    """Give the machine a name that every verdict would repeat."""
    provenance = good.run.evidence.provenance
    device = provenance.device
    if device is None:
        raise LookupError("no device")
    named = replace(provenance, device=replace(device, name="H" * 100_000))
    good.read(seal({**good.files, EVIDENCE: encode(replace(good.run.evidence, provenance=named))}))
    return ACCEPTED


def _foreign_unit(good: GoodRun, gate: str) -> str:  # noqa: ARG001 - every tampering has this signature
    """Let the bundle of a shard hold one result more than its shard asks for."""
    every = units_of(good.run.plan)
    first = good.run.evidence.observations[0]
    others = tuple(unit for unit in every if (unit.kind, unit.workload) != (first.kind, first.target))
    for units in (every, others):
        shard = Shard(index=1, count=1, plan=good.run.plan_digest, units=units, parts=(units_digest(units),))
        run = replace(good.run, evidence=replace(good.run.evidence, shard=shard), files={}, is_v1=False)
        try:
            merge.check(merge.Part(where="planted", run=run))
        except merge.ForeignUnitError:
            return REFUSED if units is others else ACCEPTED
    return ACCEPTED


def _lowered_bar(good: GoodRun, gate: str, *, tampering: str) -> str:  # noqa: ARG001 - as above
    reason = lowered_bar.reason_of(good.run.plan, tampering)
    return ACCEPTED if reason == lowered_bar.NOT_SEEN else reason


def _look_alike(good: GoodRun, gate: str, *, tampering: str) -> str:  # noqa: ARG001 - as above
    return REFUSED if look_alikes.is_seen(good.scratch, tampering) else ACCEPTED


TAMPERINGS: dict[str, Callable[[GoodRun, str], str]] = {
    "truncated-report": _altered_report(lambda data: data[: len(data) // 2]),
    "flipped-report": _altered_report(lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "empty-report": _altered_report(lambda _: b""),
    "foreign-report": _altered_report(lambda data: data[::-1]),
    "stale-digest": _altered_observation(lambda old: (replace(old, identity=replace(old.identity, machine_code="0" * 64)),)),
    "forged-number": _forged_number,
    "replaced-evidence": _replaced_evidence,
    "older-schema": _older_schema,
    "other-device": _altered_provenance(device={"name": "another GPU"}),
    "other-driver": _altered_provenance(device={"driver": "1.0"}),
    "other-tools": _altered_provenance(tools=(("ncu", "1.0"), ("compute-sanitizer", "1.0"), ("torch", "1.0"))),
    "no-tools": _altered_provenance(tools=()),
    "future-evidence": _altered_provenance(collected_at="2999-01-01T00:00:00Z"),
    "old-evidence": _altered_provenance(collected_at="2000-01-01T00:00:00Z"),
    "waived-crash": _waived_crash,
    "claimed-first-run": _claimed_first_run,
    "number-against-its-file": _altered_observation(_number_against_its_file),
    "sealed-report": _sealed_report,
    "other-sources": _other_sources,
    "wrong-kernel": _wrong_kernel,
    "not-isolated": _not_isolated,
    "missing-workload": _altered_observation(lambda _: ()),
    "cut-log": _altered_log(lambda data: data[: data.index(b"SUMMARY")]),
    "unknown-line": _altered_log(
        lambda data: data.replace(b"SANITIZER\n", b"SANITIZER\n========= Some launches were not seen\n")
    ),
    "two-summaries": _altered_log(lambda data: data + data.splitlines(keepends=True)[-1]),
    "leftover-result": _leftover_result,
    "piped-result": _piped_result,
    "endless-text": _endless_text,
    "foreign-unit": _foreign_unit,
    **{name: partial(_lowered_bar, tampering=name) for name in lowered_bar.TAMPERINGS},
    **{name: partial(_look_alike, tampering=name) for name in look_alikes.PAIRS},
}
