"""The gate ``no-slower``: from the samples of a comparison to the answer, with all that a person needs to believe it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from flashcore_ci.judge.references import CYCLES, TIME, ComparisonContext
from flashcore_ci.judge.rules import Evaluation, Facts, evaluate_missing
from flashcore_ci.judge.stats import sequential_test
from flashcore_ci.judge.stats.paired_estimate import Estimate
from flashcore_ci.judge.stats.sequential_test import INTERIM_LOOKS, TIME_MARGIN, Decision, ErrorBudget, Rounds, percent
from flashcore_ci.model.codes import FAILING, PASSING, Code
from flashcore_ci.model.evidence import Identity, Observation
from flashcore_ci.model.identity import digest_of, is_covered, is_same_code
from flashcore_ci.model.metrics import METRICS
from flashcore_ci.model.plan import Check
from flashcore_ci.model.reading import Measured, Missing, Samples, measured
from flashcore_ci.model.verdict import Outcome, Reason

METRIC = {TIME: "time/gpu/cold", CYCLES: "cycles/gpu/cold"}
MUST_MATCH = ("subject", "workload", "collector")
"""What head's side decides for both: the same subject is asked the same thing in the same way."""


def evaluate(check: Check, observation: Observation, context: ComparisonContext) -> Evaluation:
    """Judge one comparison."""
    facts = tuple(_facts(observation))
    if observation.missing is not None:
        return evaluate_missing(observation.missing, facts)
    base = observation.base
    if base is None or not _is_comparable(base, observation.identity):
        return evaluate_missing(_invalid("it does not say what it compares, or compares different things"), facts)
    if is_same_code(base, observation.identity):
        return _same_code(facts)
    try:
        decision = decision_on(check, dict(observation.samples), context)
    except ValueError as error:
        return evaluate_missing(_invalid(str(error)), facts)
    if decision is None:
        few = f"{_round_count(observation)} rounds were completed, {INTERIM_LOOKS[0]} are needed"
        return evaluate_missing(Missing(code=Code.TOO_FEW_PROCESSES, message=few), facts)
    return _evaluate(check, decision, context, facts)


def is_final(check: Check, samples: Mapping[str, Samples], context: ComparisonContext) -> bool:
    """Whether further rounds could not change the verdict: what the collector asks after each look."""
    try:
        decision = decision_on(check, samples, context)
    except ValueError:
        return False
    return decision is not None and decision.code in sequential_test.FINAL_CODES


def decision_on(check: Check, samples: Mapping[str, Samples], context: ComparisonContext) -> Decision | None:
    """What the rounds say; None when there are too few to look. ValueError when they cannot have been measured."""
    primary = _rounds_in(samples, context.primary)
    if len(primary.base) < INTERIM_LOOKS[0]:
        return None
    time = None if context.primary == TIME else _rounds_in(samples, TIME)
    if time is not None and len(time.base) != len(primary.base):
        raise ValueError("there are more rounds in one scale than in the other")
    return sequential_test.decide(
        primary,
        time,
        margin=math.log1p(check.limit.value / 100.0),
        rows=context.rows,
        noise=(context.prior(check.target, context.primary), context.prior(check.target, TIME)),
    )


def pair_of(base: Identity, head: Identity) -> str:
    """The names of the two codes that were compared, for a waiver: as long as both stay what they are, so does this."""
    return "..".join(digest_of(side.machine_code, side.launcher, side.binding)[:12] for side in (base, head))


def _is_comparable(base: Identity, head: Identity) -> bool:
    """Tell whether both sides were asked the same thing. A subject that builds nothing holds the kernel: its file may differ."""
    parts = MUST_MATCH if is_covered(base) and is_covered(head) else tuple(part for part in MUST_MATCH if part != "subject")
    return all(getattr(base, part) == getattr(head, part) for part in parts)


def _rounds_in(samples: Mapping[str, Samples], scale: str) -> Rounds:
    sides = []
    for side in ("base", "head"):
        name = f"{side}/{METRIC[scale]}"
        found = samples.get(name)
        if found is None or found.unit != METRICS[name].unit:
            raise ValueError(f"there are no samples named {name} in {METRICS[name].unit}")
        sides.append(found.values)
    return Rounds(base=sides[0], head=sides[1])


def _invalid(message: str) -> Missing:
    return Missing(code=Code.INVALID_RESULT, message=message)


def _same_code(facts: Facts) -> Evaluation:
    """The same machine code, launcher and binding: nothing can be slower."""
    reason = Reason(code=Code.SAME_CODE, message="base and head are the same code", facts=facts)
    return Evaluation(outcome=Outcome.PASS, reading=Measured(value=0.0, unit="%"), reason=reason)


def _evaluate(check: Check, decision: Decision, context: ComparisonContext, facts: Facts) -> Evaluation:
    code = decision.code
    outcome = Outcome.PASS if code in PASSING else Outcome.FAIL if code in FAILING else Outcome.INCONCLUSIVE
    shown = decision.time if code is Code.SLOWER_AT_LOWER_CLOCK and decision.time else decision.primary
    reason = Reason(code=code, message=_message(check, decision, context), facts=(*_statistics_facts(decision, context), *facts))
    pair = dict(facts).get("pair")
    accept = (f'to accept it: a waiver with pair = "{pair}"',) if outcome is Outcome.FAIL and pair else ()
    return Evaluation(
        outcome=outcome, reading=measured(percent(shown.mean), "%"), reason=reason, notes=(*decision.modes, *accept)
    )


def _message(check: Check, decision: Decision, context: ComparisonContext) -> str:
    """One line: what was found, in which scale, after how many rounds."""
    budget = decision.budget
    scale = "time" if context.primary == TIME else "cycles"
    found = f"{_percent_text(decision.primary.mean)} in {scale} after {decision.primary.rounds} rounds, {_bounds_text(decision.primary, budget)}"
    margin = f"the margin is {check.limit.value:g} %"
    if decision.code is Code.BIMODAL:
        return f"the machine has two speeds ({'; '.join(decision.modes)}): {found}"
    if decision.code is Code.BELOW_RESOLUTION and decision.resolvable_margin is not None:
        return f"{found}; {margin}, the smallest that holds here is {_round_up(percent(decision.resolvable_margin))} %"
    if decision.code is Code.SLOWER_AT_LOWER_CLOCK and decision.time is not None:
        allowed = f"more than {percent(TIME_MARGIN):.2g} % is held against it"
        return f"{_percent_text(decision.time.mean)} in time, {_bounds_text(decision.time, decision.time_budget)}; {allowed}; {found}"
    loud = decision.code is Code.UNDECIDED and decision.primary.scatter_ratio is not None and not decision.primary.moderated
    noisier = f"; today its rounds scatter {decision.primary.scatter_ratio:.2g} times as much as recorded" if loud else ""
    return f"{found}; {margin}{noisier}"


def _statistics_facts(decision: Decision, context: ComparisonContext) -> Iterator[tuple[str, str]]:
    budget = decision.budget
    scales = (
        ("time" if context.primary == TIME else "cycles", decision.primary, budget),
        ("time", decision.time, decision.time_budget),
    )
    yield "rounds", str(decision.primary.rounds)
    convicting = f"unchanged {budget.alpha_null:.2g}, within the margin {budget.alpha_margin:.2g}"
    yield "errors", f"SLOWER though {convicting}; SAME though slower {budget.beta:.2g}; {context.rows} rows"
    for name, estimate, at in scales:
        if estimate is not None:
            yield f"slowdown/{name}", f"{_percent_text(estimate.mean)} ({_bounds_text(estimate, at)})"
            yield f"noise/{name}", _noise_text(estimate)
    if decision.resolvable_margin is not None:
        yield "margin that holds", f"{_round_up(percent(decision.resolvable_margin))} %"


def _noise_text(estimate: Estimate) -> str:
    scatter = f"a round scatters by {100.0 * estimate.standard_error * math.sqrt(estimate.rounds):.2g} %"
    if estimate.scatter_ratio is None:
        return f"{scatter}; no recording of it on such a machine"
    used = "used with the recording" if estimate.moderated else "noisier than the recording, which is not used"
    return f"{scatter}; today {estimate.scatter_ratio:.2g} times the recording, {used}; {estimate.df:.3g} degrees of freedom"


def _bounds_text(estimate: Estimate, budget: ErrorBudget) -> str:
    lower = f"{_percent_text(estimate.lower_bound(budget.alpha_margin))} to " if budget.alpha_margin > 0 else "at most "
    return f"surely {lower}{_percent_text(estimate.upper_bound(budget.beta))}"


def _percent_text(log_ratio: float) -> str:
    return f"{percent(log_ratio):+.2f} %"


def _round_up(value: float) -> str:
    """Rounded up to two digits: a margin that is given must hold."""
    if not value > 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit - 1e-9) * unit:.3g}"


def _round_count(observation: Observation) -> int:
    return max((len(samples.values) for _, samples in observation.samples), default=0)


def _facts(observation: Observation) -> Iterator[tuple[str, str]]:
    """Clocks, medians and dropped blocks, as they were seen."""
    for name, samples in observation.samples:
        if samples.values:
            yield name, f"{min(samples.values):.6g} to {max(samples.values):.6g} {samples.unit}"
    for name, reading in observation.readings:
        if isinstance(reading, Measured):
            yield name, f"{reading.value:g} {reading.unit}"
    base, head = observation.base, observation.identity
    if base is None:
        return
    if not (is_covered(base) and is_covered(head)):
        yield "code", "no digest covers it, so it is always timed, and each side runs its own subject file"
    elif base != head:
        yield "pair", pair_of(base, head)
