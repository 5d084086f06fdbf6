"""Combine all verdicts into an outcome, an exit code and a headline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from flashcore_ci.judge.waivers import NOT_PASSING
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.model.suite import BAR
from flashcore_ci.model.verdict import Outcome, Verdict

EXIT_CODE = {Outcome.FAIL: ExitCode.GATE_FAILED, Outcome.INCONCLUSIVE: ExitCode.INCONCLUSIVE, Outcome.PASS: ExitCode.PASSED}


def overall(verdicts: Sequence[Verdict]) -> Outcome:
    """Return the worst blocking outcome, else PASS (INCONCLUSIVE without checks)."""
    blocking = {verdict.outcome for verdict in verdicts if verdict.blocks}
    if Outcome.FAIL in blocking:
        return Outcome.FAIL
    return Outcome.INCONCLUSIVE if blocking or not verdicts else Outcome.PASS


def headline(verdicts: Sequence[Verdict]) -> str:
    """Format ``FAIL: 2 of 143 checks block this merge``. A lower bar comes first."""
    outcome, total = overall(verdicts), len(verdicts)
    bar = _bar(verdicts)
    if not verdicts:
        return f"{outcome}: no check was planned"
    blocking = sum(verdict.blocks for verdict in verdicts)
    if blocking:
        verb, pronoun = ("blocks", "it") if blocking == 1 else ("block", "they")
        reason = f" because {pronoun} could not be judged" if outcome is Outcome.INCONCLUSIVE else ""
        return f"{outcome}: {bar}{blocking:,} of {total:,} checks {verb} this merge{reason}"
    passed = sum(verdict.outcome is Outcome.PASS for verdict in verdicts)
    others = {
        "not passed but advisory": sum(v.outcome in NOT_PASSING and not v.blocks and not v.deferred for v in verdicts),
        "waived": sum(verdict.outcome is Outcome.WAIVED for verdict in verdicts),
        "deferred to a machine with the GPU": sum(verdict.deferred for verdict in verdicts),
    }
    rest = "".join(f", {count:,} {word}" for word, count in others.items() if count)
    return f"{outcome}: {bar}{passed:,} of {total:,} checks passed{rest}"


def _bar(verdicts: Sequence[Verdict]) -> str:
    """Count what head asks less of by reason code, and what was accepted."""
    ours = [verdict for verdict in verdicts if verdict.gate == BAR]
    blocking = Counter(str(verdict.reason.code) for verdict in ours if verdict.blocks)
    accepted = sum(verdict.outcome is Outcome.WAIVED for verdict in ours)
    parts = [f"{count} {code}" for code, count in sorted(blocking.items())]
    parts += [f"{accepted} accepted by a reviewed file"] if accepted else []
    return f"the bar is not the base's ({', '.join(parts)}). " if parts else ""
