"""Damaged evidence: what a bad disk, a hasty person or a forger does to a run, and what the tool makes of it. No GPU is needed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.adapters import clock, sanitizer
from flashcore_ci.collect import child
from flashcore_ci.collect.sanitizer import between_marks, counted
from flashcore_ci.model.codes import PASSING
from flashcore_ci.model.errors import EvidenceError, UsageError
from flashcore_ci.model.evidence import Evidence, Observation
from flashcore_ci.model.reading import Measured, Reading
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Outcome, Report
from flashcore_ci.selftest.model import REFUSED, Caught, Planted
from flashcore_ci.store.codec import encode
from flashcore_ci.store.manifest import EVIDENCE, MANIFEST, Manifest, member_of
from flashcore_ci.store.run import Run, read_run

ACCEPTED = "accepted"
NOTHING_GREEN = "nothing green to damage"
REPORTS = "artifacts/profile/"
ROLL_CALL = "artifacts/sanitizer/roll-call.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A good run, by its files, whose copies are damaged in ``scratch``; ``judge`` says what evidence leads to."""

    files: dict[str, bytes]
    run: Run
    scratch: Path
    judge: Callable[[Evidence], Report]

    def read(self, files: dict[str, bytes]) -> Run:
        """The run that these files are. EvidenceError when they are none."""
        folder = self.scratch / f"damaged-{len(list(self.scratch.iterdir()))}"
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        return read_run(folder)

    def report(self) -> str:
        """The name of a profiler's report in the run."""
        return next(name for name in sorted(self.files) if name.startswith(REPORTS))

    def asked(self, gate: str) -> tuple[Kind, str]:
        """A check of this gate that is green: evidence kind and target. LookupError when there is none."""
        for verdict in self.judge(self.run.evidence).verdicts:
            if verdict.gate == gate and verdict.outcome is Outcome.PASS:
                return verdict.evidence, verdict.target
        raise LookupError(gate)


def sealed(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files with a manifest that fits them: damage that no digest shows."""
    own = {name: data for name, data in files.items() if name != MANIFEST}
    members = tuple(member_of(name, data) for name, data in sorted(own.items()))
    return {**own, MANIFEST: encode(Manifest(files=members))}


def inflict(planted: Planted, bench: Bench) -> Caught:
    """Damage a copy as the defect says, and see what the tool says. UsageError for a damage that nobody knows."""
    damage = DAMAGES.get(planted.damage)
    if damage is None:
        raise UsageError(f"{planted.name}: unknown damage {planted.damage!r}", fix=f"known: {', '.join(DAMAGES)}")
    began = clock.monotonic()
    try:
        found = damage(bench, planted.gate)
    except EvidenceError:
        found = REFUSED
    except LookupError:
        found = NOTHING_GREEN
    red = found not in {ACCEPTED, NOTHING_GREEN} and found not in PASSING
    return Caught(planted=planted, found=found, red=red, seconds=clock.monotonic() - began)


def _altered_report(alter: Callable[[bytes], bytes]) -> Callable[[Bench, str], str]:
    def damage(bench: Bench, gate: str) -> str:  # noqa: ARG001 - every damage is called alike
        bench.read({**bench.files, bench.report(): alter(bench.files[bench.report()])})
        return ACCEPTED

    return damage


def _forged_number(bench: Bench, gate: str) -> str:  # noqa: ARG001 - every damage is called alike
    text = bench.files[EVIDENCE].decode()
    forged = re.sub(r'("value": )(\d)', lambda found: f"{found[1]}{(int(found[2]) + 1) % 10}", text, count=1)
    bench.read({**bench.files, EVIDENCE: forged.encode()})
    return ACCEPTED


def _older_schema(bench: Bench, gate: str) -> str:  # noqa: ARG001 - every damage is called alike
    older = {**json.loads(bench.files[EVIDENCE]), "schema": "evidence-v0"}
    bench.read(sealed({**bench.files, EVIDENCE: json.dumps(older).encode()}))
    return ACCEPTED


def _stale_digest(bench: Bench, gate: str) -> str:
    def aged(seen: Observation) -> tuple[Observation, ...]:
        return (replace(seen, identity=replace(seen.identity, machine_code="0" * 64)),)

    return _with_observation(bench, gate, aged)


def _missing_workload(bench: Bench, gate: str) -> str:
    return _with_observation(bench, gate, lambda _: ())


def _with_observation(bench: Bench, gate: str, change: Callable[[Observation], tuple[Observation, ...]]) -> str:
    """The gate's reason once the observation that it rests on was changed, under digests that fit."""
    kind, target = bench.asked(gate)
    evidence = bench.run.evidence
    changed = tuple(
        new for old in evidence.observations for new in (change(old) if (old.kind, old.target) == (kind, target) else (old,))
    )
    data = encode(replace(evidence, observations=changed))
    report = bench.judge(bench.read(sealed({**bench.files, EVIDENCE: data})).evidence)
    return next(v.reason.code for v in report.verdicts if (v.gate, v.target) == (gate, target))


def _wrong_kernel(bench: Bench, gate: str) -> str:
    """The tool's list of launches names other kernels than those that were planned."""
    _, target = bench.asked(gate)
    index = [workload.id for workload in bench.run.plan.workloads_for(Kind.SANITIZER)].index(target)
    workload = bench.run.plan.workloads_for(Kind.SANITIZER)[index]
    entries = bench.run.plan.description(workload.subject).problem(target).entries
    text = bench.files[ROLL_CALL].decode()
    for entry in entries:
        text = text.replace(f"Kernel: {entry}\n", f"Kernel: {entry}_of_somebody_else\n")
    return _code(counted(between_marks(sanitizer.parse_launches(text), index), entries))


def _cut_log(bench: Bench, gate: str) -> str:
    """The log of a clean check ends before its summary."""
    _, target = bench.asked(gate)
    text = bench.files[f"artifacts/sanitizer/{gate}-{target}.log"].decode()
    log = sanitizer.parse(text[: text.index("SUMMARY")], gate)
    return _code(sanitizer.read_findings(log, returncode=0, version=sanitizer.FLOOR_TEXT, ran=True))


def _leftover_result(bench: Bench, gate: str) -> str:  # noqa: ARG001 - every damage is called alike
    """A worker's result, whole and well formed, that is the answer to an earlier job."""
    file = bench.scratch / "result.json"
    left = {"schema": "result-v1", "kind": "correctness", "nonce": "earlier", "job": "0" * 64}
    file.write_text(json.dumps({**left, "environment": {}, "outcomes": {}, "finished": True, "started": None}), encoding="utf-8")
    read = child.read_result(file, kind="correctness", nonce="later", job="1" * 64, began=0.0)
    return ACCEPTED if isinstance(read, dict) else read.code


def _code(reading: Reading) -> str:
    return ACCEPTED if isinstance(reading, Measured) else reading.code


DAMAGES: dict[str, Callable[[Bench, str], str]] = {
    "truncated-report": _altered_report(lambda data: data[: len(data) // 2]),
    "flipped-report": _altered_report(lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "empty-report": _altered_report(lambda _: b""),
    "foreign-report": _altered_report(lambda data: data[::-1]),
    "stale-digest": _stale_digest,
    "forged-number": _forged_number,
    "older-schema": _older_schema,
    "wrong-kernel": _wrong_kernel,
    "missing-workload": _missing_workload,
    "cut-log": _cut_log,
    "leftover-result": _leftover_result,
}
