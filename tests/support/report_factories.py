"""Small builders of verdicts and reports over the world of ``factories``."""

from __future__ import annotations

from evidence_factories import make_provenance
from factories import make_build, make_waiver

from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.plan import Excluded
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import Kind, Rule, Scope, Severity
from flashcore_ci.model.verdict import Origin, Outcome, Reason, Report, Verdict

RECORDED = Origin(kind="recorded", detail="on NVIDIA H200, driver 580.159.04, 2026-11-21")
LIVE = Origin(kind="live", detail="on NVIDIA H200, driver 580.159.04, 2026-11-21")


def make_verdict(gate="finite", target="big", outcome=Outcome.PASS, **changes) -> Verdict:
    values = {
        "gate": gate,
        "title": f"the gate {gate}",
        "evidence": Kind.CORRECTNESS,
        "target": target,
        "scope": Scope.WORKLOAD,
        "subject": "scale",
        "outcome": outcome,
        "severity": Severity.BLOCKING,
        "blocks": outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE},
        "deferred": False,
        "reason": Reason(code=Code.WITHIN_LIMIT, message="0 findings (limit 0)"),
        "reading": Measured(value=0.0, unit="count"),
        "rule": Rule.EQUAL,
        "limit": 0.0,
        "unit": "count",
        "origin": LIVE,
        "why": "because",
        "seconds": 1.5,
    }
    return Verdict(**{**values, **changes})


def verdicts_of_every_kind() -> tuple[Verdict, ...]:
    """PASS, FAIL with findings, advisory FAIL, INCONCLUSIVE, deferred INCONCLUSIVE and WAIVED."""
    busy = "pid 4711 (python) uses this GPU"
    return (
        make_verdict("finite", "big"),
        make_verdict(
            "memcheck",
            "big",
            Outcome.FAIL,
            evidence=Kind.SANITIZER,
            reading=Measured(value=1.0, unit="count"),
            reason=Reason(code=Code.OVER_LIMIT, message="1 finding (limit 0)", facts=(("launches", "2"),)),
            next_step="fix the kernel",
            findings=(
                Finding(
                    tool="memcheck",
                    message="Invalid __global__ read of size 16 bytes",
                    kernel="scale_f32",
                    file="kernel/scale.cuh",
                    line=42,
                ),
            ),
            notes=("3 more findings like this one",),
        ),
        make_verdict(
            "sol-dram",
            "big",
            Outcome.FAIL,
            evidence=Kind.PROFILE,
            severity=Severity.ADVISORY,
            blocks=False,
            reading=Measured(value=71.25, unit="%"),
            reason=Reason(code=Code.UNDER_LIMIT, message="71.25 % (minimum 85 %)"),
            rule=Rule.AT_LEAST,
            limit=85.0,
            unit="%",
            origin=RECORDED,
        ),
        make_verdict(
            "stability",
            "big",
            Outcome.INCONCLUSIVE,
            evidence=Kind.TIMING,
            reading=Missing(code=Code.GPU_BUSY, message=busy),
            reason=Reason(code=Code.GPU_BUSY, message=busy),
            rule=Rule.LESS,
            limit=2.0,
            unit="%",
            next_step="end them",
        ),
        make_verdict(
            "finite",
            "small",
            Outcome.INCONCLUSIVE,
            blocks=False,
            deferred=True,
            reading=Missing(code=Code.STALE_EVIDENCE, message="machine code changed"),
            reason=Reason(code=Code.STALE_EVIDENCE, message="machine code changed"),
            origin=Origin(kind="none"),
        ),
        make_verdict(
            "spills",
            "scale_f32",
            Outcome.WAIVED,
            evidence=Kind.RESOURCES,
            scope=Scope.ENTRY,
            blocks=False,
            reading=Measured(value=16.0, unit="byte"),
            reason=Reason(code=Code.OVER_LIMIT, message="16 bytes (limit 0)"),
            unit="byte",
            notes=("waived until 2026-12-31 by kernels: known, see the tuning log",),
        ),
    )


def make_report(verdicts=None, **changes) -> Report:
    values = {
        "suite": "tiny",
        "tool": "flashcore-ci 0.1.0",
        "as_of": "2026-11-21T08:00:00Z",
        "outcome": Outcome.FAIL,
        "exit_code": 10,
        "headline": "FAIL: 2 of 6 checks block this merge",
        "verdicts": verdicts_of_every_kind() if verdicts is None else tuple(verdicts),
        "excluded": (Excluded(gate="sol-dram", target="small", why="its roof is balanced, the gate is for memory"),),
        "waivers": (make_waiver("spills", "scale_f32"),),
        "builds": (make_build(),),
        "provenance": make_provenance(),
        "notes": ("a note",),
        "judged_commit": "0123456789abcdef0123456789abcdef01234567",
    }
    return Report(**{**values, **changes})
