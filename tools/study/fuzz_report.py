"""A small report, for the fuzzer."""

from __future__ import annotations

from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind, Rule, Scope, Severity
from flashcore_ci.model.verdict import Origin, Outcome, Reason, Report, Verdict
from flashcore_ci.store import codec


def small_report() -> bytes:
    """Return a report with one verdict."""
    reason = Reason(code=Code.WITHIN_LIMIT, message="0 findings (limit 0)", facts=(("launches", "2"),))
    fixed = {"scope": Scope.WORKLOAD, "severity": Severity.BLOCKING, "rule": Rule.EQUAL, "origin": Origin(kind="none")}
    verdict = Verdict(
        gate="g", title="t", evidence=Kind.CORRECTNESS, target="w", subject="s", outcome=Outcome.PASS, blocks=False, deferred=False,
        reason=reason, reading=Measured(value=0.0, unit="count"), limit=0.0, unit="count", notes=("n",), **fixed,
    )  # fmt: skip
    report = Report(
        suite="s", tool="t", as_of="2026-11-22T00:00:00Z", outcome=Outcome.PASS, exit_code=0, headline="h", verdicts=(verdict,),
        excluded=(), waivers=(), builds=(), provenance=None,
    )  # fmt: skip
    return codec.encode(report)
