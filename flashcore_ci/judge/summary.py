"""All verdicts together: may the change merge, in one word, one number and one line."""

from __future__ import annotations

from collections.abc import Sequence

from flashcore_ci.judge.waivers import NOT_PASSING
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.model.verdict import Outcome, Verdict

EXIT_CODE = {
    Outcome.FAIL: ExitCode.GATE_FAILED,
    Outcome.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    Outcome.PASS: ExitCode.PASSED,
}


def overall(verdicts: Sequence[Verdict]) -> Outcome:
    """FAIL or INCONCLUSIVE when such a verdict blocks, in this order, else PASS. No verdict at all is no pass."""
    blocking = {verdict.outcome for verdict in verdicts if verdict.blocks}
    if Outcome.FAIL in blocking:
        return Outcome.FAIL
    return Outcome.INCONCLUSIVE if blocking or not verdicts else Outcome.PASS


def headline(verdicts: Sequence[Verdict]) -> str:
    """The result in one line: ``FAIL: 2 of 143 checks block this merge``."""
    outcome, total = overall(verdicts), len(verdicts)
    if not verdicts:
        return f"{outcome}: no check was planned"
    blocking = sum(verdict.blocks for verdict in verdicts)
    if blocking:
        unsure = " because they could not be judged" if outcome is Outcome.INCONCLUSIVE else ""
        said = f"{blocking} of {total} checks {'blocks' if blocking == 1 else 'block'} this merge{unsure}"
        said = said.replace("because they", "because it") if blocking == 1 else said
        return f"{outcome}: {said}"
    passed = sum(verdict.outcome is Outcome.PASS for verdict in verdicts)
    rest = "".join(f", {count} {word}" for word, count in _not_passed(verdicts) if count)
    return f"{outcome}: {passed} of {total} checks passed{rest}"


def _not_passed(verdicts: Sequence[Verdict]) -> tuple[tuple[str, int], ...]:
    deferred = sum(verdict.deferred for verdict in verdicts)
    advisory = sum(v.outcome in NOT_PASSING and not v.blocks and not v.deferred for v in verdicts)
    return (
        ("red but advisory", advisory),
        ("waived", sum(verdict.outcome is Outcome.WAIVED for verdict in verdicts)),
        ("deferred to a machine with the GPU", deferred),
    )
