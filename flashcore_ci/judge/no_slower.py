"""The gate ``no-slower``: compare base and head."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from flashcore_ci.judge.references import ComparisonContext
from flashcore_ci.judge.rules import Evaluation, Facts, evaluate_missing
from flashcore_ci.judge.stats import sequential_test
from flashcore_ci.judge.stats.paired_estimate import Estimate
from flashcore_ci.judge.stats.sequential_test import INTERIM_LOOKS, TIME_MARGIN, Decision, ErrorBudget, Rounds, percent
from flashcore_ci.model.codes import FAILING, PASSING, Code
from flashcore_ci.model.evidence import Identity, Observation
from flashcore_ci.model.identity import digest_of, is_covered, was_same_code
from flashcore_ci.model.jit import retuned
from flashcore_ci.model.metrics import METRICS, SIDES, Scale
from flashcore_ci.model.plan import Check
from flashcore_ci.model.reading import Measured, Missing, Samples, measured
from flashcore_ci.model.verdict import Outcome, Reason

MUST_MATCH = ("subject", "workload", "collector")
"""The digests that must be equal on both sides, so that both answer the same question."""


def evaluate(check: Check, observation: Observation, context: ComparisonContext) -> Evaluation:
    """Evaluate one comparison."""
    facts = tuple(_observed_facts(observation))
    if observation.missing is not None:
        return evaluate_missing(observation.missing, facts)
    base = observation.base
    if base is None or not _is_comparable(base, observation.identity):
        return _invalid("the base is not named, or base and head differ in subject, workload or collector", facts)
    if was_same_code(observation):
        return _evaluate_same_code(facts)
    try:
        decision = decide_check(check, dict(observation.samples), context)
    except ValueError as error:
        return _invalid(str(error), facts)
    if decision is None:
        few = f"{_round_count(observation)} rounds were completed, {INTERIM_LOOKS[0]} are needed"
        return evaluate_missing(Missing(code=Code.TOO_FEW_PROCESSES, message=few), facts)
    return _with_choices(_evaluate_decision(check, decision, context, facts), observation, base)


def is_final(check: Check, samples: Mapping[str, Samples], context: ComparisonContext) -> bool:
    """Whether further rounds cannot change the verdict."""
    try:
        decision = decide_check(check, samples, context)
    except ValueError:
        return False
    return decision is not None and decision.code in sequential_test.FINAL_CODES


def decide_check(check: Check, samples: Mapping[str, Samples], context: ComparisonContext) -> Decision | None:
    """Decide, or None before the first look. ValueError for impossible samples."""
    primary = _rounds(samples, context.primary)
    if len(primary.base) < INTERIM_LOOKS[0]:
        return None
    time = None if context.primary is Scale.TIME else _rounds(samples, Scale.TIME)
    if time is not None and len(time.base) != len(primary.base):
        raise ValueError(f"{len(primary.base)} rounds have cycles and {len(time.base)} have a time")
    margin = math.log1p(check.limit.value / 100.0)
    noise = (context.prior(check.target, context.primary), context.prior(check.target, Scale.TIME))
    return sequential_test.decide(primary, time, margin=margin, rows=context.rows, noise=noise)


def pair_of(base: Identity, head: Identity) -> str:
    """Name the two codes for a waiver."""
    return "..".join(digest_of(side.machine_code, side.launcher, side.binding)[:12] for side in (base, head))


def _is_comparable(base: Identity, head: Identity) -> bool:
    """Whether both sides answer one question. Without a build the subject may differ."""
    parts = MUST_MATCH if is_covered(base) and is_covered(head) else tuple(part for part in MUST_MATCH if part != "subject")
    return all(getattr(base, part) == getattr(head, part) for part in parts)


def _rounds(samples: Mapping[str, Samples], scale: Scale) -> Rounds:
    values = []
    for side in SIDES:
        name = f"{side}/{scale.metric}"
        series = samples.get(name)
        if series is None or series.unit != METRICS[name].unit:
            raise ValueError(f"there are no samples named {name} in {METRICS[name].unit}")
        values.append(series.values)
    return Rounds(base=values[0], head=values[1])


def _invalid(message: str, facts: Facts) -> Evaluation:
    return evaluate_missing(Missing(code=Code.INVALID_RESULT, message=message), facts)


def _evaluate_same_code(facts: Facts) -> Evaluation:
    reason = Reason(code=Code.SAME_CODE, message="base and head are the same code", facts=facts)
    return Evaluation(outcome=Outcome.PASS, reading=Measured(value=0.0, unit="%"), reason=reason)


def _with_choices(evaluation: Evaluation, observation: Observation, base: Identity) -> Evaluation:
    """Name the configurations of autotuners that differ. Of the same sources they are why it is slower."""
    changes = retuned(observation.jit)
    if not changes:
        return evaluation
    reason = evaluation.reason
    if evaluation.outcome is Outcome.FAIL and base == observation.identity:
        reason = replace(reason, code=Code.RETUNED, message=f"{changes[0].removeprefix('retuned: ')}: {reason.message}")
    return replace(evaluation, reason=reason, notes=(*evaluation.notes, *changes))


def _evaluate_decision(check: Check, decision: Decision, context: ComparisonContext, facts: Facts) -> Evaluation:
    code = decision.code
    outcome = Outcome.PASS if code in PASSING else Outcome.FAIL if code in FAILING else Outcome.INCONCLUSIVE
    shown = decision.time if code is Code.SLOWER_AT_LOWER_CLOCK and decision.time else decision.primary
    reason = Reason(code=code, message=_message(check, decision, context), facts=(*_statistics_facts(decision, context), *facts))
    pair = dict(facts).get("pair")
    accept = (f'to accept it: a waiver with pair = "{pair}" and codes = ["{code}"]',) if outcome is Outcome.FAIL and pair else ()
    notes = (*decision.modes, *accept)
    return Evaluation(outcome=outcome, reading=measured(percent(shown.mean), "%"), reason=reason, notes=notes)


def _message(check: Check, decision: Decision, context: ComparisonContext) -> str:
    primary = decision.primary
    scale = f"{context.primary.label}{' at a common clock' if decision.slope else ''}"
    result = f"{_percent_text(primary.mean)} in {scale} after {primary.rounds} rounds {_bounds_text(primary, decision.budget)}"
    margin = f"margin {check.limit.value:g} %"
    if decision.code is Code.BIMODAL:
        return f"the processes have two speeds ({', '.join(decision.modes)}): {result}, {margin}"
    if decision.code is Code.BELOW_RESOLUTION and decision.resolvable_margin is not None:
        smallest = _round_up(percent(decision.resolvable_margin))
        return f"{result}, {margin}, smallest resolvable margin on this machine {smallest} %"
    if decision.code is Code.SLOWER_AT_LOWER_CLOCK and decision.time is not None:
        time = f"{_percent_text(decision.time.mean)} in time {_bounds_text(decision.time, decision.time_budget)}"
        return f"{time}, margin {percent(TIME_MARGIN):.2g} %, but {result}"
    is_noisier = decision.code is Code.UNDECIDED and primary.scatter_ratio is not None and not primary.moderated
    noisier = f". Today's rounds scatter {primary.scatter_ratio:.2g} times as much as recorded" if is_noisier else ""
    is_far = decision.code is Code.UNDECIDED and 2.0 * primary.clock_error**2 > primary.standard_error**2
    return f"{result}, {margin}{noisier}{'. The clocks of the sides differ too much for the recorded slope' if is_far else ''}"


def _statistics_facts(decision: Decision, context: ComparisonContext) -> Iterator[tuple[str, str]]:
    budget = decision.budget
    yield "rounds", str(decision.primary.rounds)
    alpha = f"alpha {budget.alpha_null:.2g} at zero and {budget.alpha_margin:.2g} at the margin"
    yield "errors", f"{alpha}, beta {budget.beta:.2g}, rows that share alpha: {context.rows}"
    if decision.slope:
        error = f"its error adds {100.0 * decision.primary.clock_error:.2g} % to the standard error"
        yield "clock slope", f"{decision.slope:.2f}, recorded, for cycles at a common clock: {error}"
    scales = ((context.primary, decision.primary, budget), (Scale.TIME, decision.time, decision.time_budget))
    for scale, estimate, scale_budget in scales:
        if estimate is not None:
            yield f"slowdown/{scale.label}", f"{_percent_text(estimate.mean)} {_bounds_text(estimate, scale_budget)}"
            yield f"noise/{scale.label}", _noise_text(estimate)
    if decision.resolvable_margin is not None:
        yield "margin that holds", f"{_round_up(percent(decision.resolvable_margin))} %"


def _noise_text(estimate: Estimate) -> str:
    scatter = f"standard deviation of a round {100.0 * estimate.scatter:.2g} %"
    if estimate.scatter_ratio is None:
        return f"{scatter}, no recording on such a machine"
    usage = "moderated by it" if estimate.moderated else "significantly more, so the recording is not used"
    return f"{scatter}, today {estimate.scatter_ratio:.2g} times the recording, {usage}, df {estimate.df:.3g}"


def _bounds_text(estimate: Estimate, budget: ErrorBudget) -> str:
    """The first look spends no alpha: no lower bound."""
    upper = _percent_text(estimate.upper_bound(budget.beta))
    if not budget.alpha_margin > 0:
        return f"(upper confidence bound {upper})"
    return f"(confidence bounds {_percent_text(estimate.lower_bound(budget.alpha_margin))} and {upper})"


def _percent_text(log_ratio: float) -> str:
    return f"{percent(log_ratio):+.2f} %"


def _round_up(value: float) -> str:
    """Round up to two digits, so the margin is large enough."""
    if not value > 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit - 1e-9) * unit:.3g}"


def _round_count(observation: Observation) -> int:
    return max((len(samples.values) for _, samples in observation.samples), default=0)


def _observed_facts(observation: Observation) -> Iterator[tuple[str, str]]:
    for name, samples in observation.samples:
        if samples.values:
            yield name, f"{min(samples.values):.6g} to {max(samples.values):.6g} {samples.unit}"
    for name, reading in observation.readings:
        if isinstance(reading, Measured):
            yield name, f"{reading.value:g} {reading.unit}"
    base, head = observation.base, observation.identity
    if base is None:
        return
    if was_same_code(observation):
        return
    if not (is_covered(base) and is_covered(head)):
        yield (
            "code",
            "no digest covers it, and it was not seen to be the same, so it was timed. Each side ran its own subject file",
        )
    elif base != head:
        yield "pair", pair_of(base, head)
    else:
        yield "code", "the sources have equal digests, but the compiled host code differs, so it was timed"
