"""Compare a reading with its limit. A NaN never passes."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace

from flashcore_ci.judge.stats import descriptive
from flashcore_ci.judge.stats.common_clock import at_common_clock
from flashcore_ci.judge.stats.distributions import chi2_quantile
from flashcore_ci.model.codes import SUBJECT_FAILURES, Code
from flashcore_ci.model.evidence import Finding, Observation
from flashcore_ci.model.metrics import LINK_BANDWIDTH, LINK_SHARE, METRICS, SCATTER, Scale, primary_scale
from flashcore_ci.model.plan import Check, Plan
from flashcore_ci.model.reading import Measured, Missing, Reading, measured
from flashcore_ci.model.suite import Gate, Kind, Rule, Statistic
from flashcore_ci.model.verdict import Outcome, Reason

STABILITY_POWER = 0.95
CONDITIONS = {Rule.LESS: "below", Rule.AT_MOST: "at most", Rule.AT_LEAST: "at least", Rule.EQUAL: "exactly"}
COMPARISONS = {Rule.LESS: operator.lt, Rule.AT_MOST: operator.le, Rule.AT_LEAST: operator.ge, Rule.EQUAL: operator.eq}
UNWRITTEN_UNITS = frozenset({"count", "abs", "ratio"})
"""Units that a message omits: people say 3, and not 3 count."""

FINDINGS, LAUNCHES = "/findings", "/launches"
UNFINISHED = "unfinished"  # the fact that a count is a part

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The result of one check before waivers."""

    outcome: Outcome
    reading: Reading
    reason: Reason
    notes: tuple[str, ...] = ()


def evaluate(check: Check, observation: Observation) -> Evaluation:
    """Compare one observation with the limit of its check."""
    reading, notes = _reading(check.gate, observation)
    facts = tuple(_facts(check, observation))
    if isinstance(reading, Missing):
        return evaluate_missing(reading, facts)
    most = METRICS[check.gate.metric].maximum if check.gate.metric in METRICS else math.inf
    if reading.value < 0 or reading.value > most:  # a -1 that means "none" would satisfy most limits
        possible = f"between 0 and {most:g}" if math.isfinite(most) else "never below 0"
        impossible = f"{_amount(reading.value, reading.unit)} is impossible: {check.gate.metric} is {possible}"
        return evaluate_missing(Missing(code=Code.INVALID_RESULT, message=impossible), facts)
    limit = check.limit
    if reading.unit != limit.unit:
        mismatch = f"the reading is {reading.value:g} {reading.unit}, but the limit is {limit.value:g} {limit.unit}"
        reason = Reason(code=Code.UNIT_MISMATCH, message=mismatch, facts=facts)
        return Evaluation(outcome=Outcome.INCONCLUSIVE, reading=reading, reason=reason, notes=notes)
    amount, condition = _amount(reading.value, reading.unit), f"{CONDITIONS[check.gate.rule]} {_amount(limit.value, limit.unit)}"
    unfinished = _unfinished(check.gate, observation) if reading.value > 0 else None
    if satisfies(check.gate.rule, reading.value, limit.value):
        if unfinished is not None:
            return evaluate_missing(
                replace(unfinished, message=f"at least {amount}, and maybe more: {unfinished.message}"), facts
            )
        reason = Reason(code=Code.WITHIN_LIMIT, message=f"{amount} is {condition}", facts=facts)
        return Evaluation(outcome=Outcome.PASS, reading=reading, reason=reason, notes=notes)
    is_below = check.gate.rule is Rule.AT_LEAST or (check.gate.rule is Rule.EQUAL and reading.value < limit.value)
    code = Code.UNDER_LIMIT if is_below else Code.OVER_LIMIT
    message = f"{amount} is not {condition}"
    if unfinished is not None:
        message, facts = f"at least {message}", (*facts, (UNFINISHED, unfinished.message))
    return Evaluation(outcome=Outcome.FAIL, reading=reading, reason=Reason(code=code, message=message, facts=facts), notes=notes)


def _unfinished(gate: Gate, observation: Observation) -> Missing | None:
    """Return why a tool may have found more than it counts. No limit and no waiver is met by a part of a count."""
    if gate.evidence is not Kind.SANITIZER or not gate.metric.endswith(FINDINGS):
        return None
    launches = observation.reading(gate.metric.removesuffix(FINDINGS) + LAUNCHES)
    return launches if isinstance(launches, Missing) else None


def on_primary_scale(check: Check, plan: Plan) -> Check:
    """Name the samples that the row's roof decides."""
    if check.gate.metric != SCATTER:
        return check
    return replace(check, gate=replace(check.gate, metric=primary_scale(plan.roof(check.target)).metric))


def evaluate_missing(missing: Missing, facts: Facts = ()) -> Evaluation:
    """FAIL if the subject caused the missing number, else INCONCLUSIVE."""
    outcome = Outcome.FAIL if missing.code in SUBJECT_FAILURES else Outcome.INCONCLUSIVE
    return Evaluation(outcome=outcome, reading=missing, reason=Reason(code=missing.code, message=missing.message, facts=facts))


def satisfies(rule: Rule, value: float, limit: float) -> bool:
    """Whether ``value`` satisfies the rule. False if either is NaN."""
    return bool(COMPARISONS[rule](value, limit))


def _amount(value: float, unit: str) -> str:
    return f"{value:g}" if unit in UNWRITTEN_UNITS else f"{value:g} {unit}"


def _reading(gate: Gate, observation: Observation) -> tuple[Reading, tuple[str, ...]]:
    if observation.missing is not None:
        return observation.missing, ()
    if gate.statistic is Statistic.VALUE:
        return _link_share(gate, observation) if gate.metric == LINK_SHARE else observation.reading(gate.metric), ()
    return _relative_std(gate, observation)


def _link_share(gate: Gate, observation: Observation) -> Reading:
    """Return the recorded bandwidth as a share of the link's peak. A share that the evidence claims does not count."""
    reading = observation.reading(LINK_BANDWIDTH)
    if isinstance(reading, Missing) or gate.peak is None or reading.unit != METRICS[LINK_BANDWIDTH].unit:
        return reading
    return measured(100e9 * reading.value / gate.peak, METRICS[LINK_SHARE].unit)


def _relative_std(gate: Gate, observation: Observation) -> tuple[Reading, tuple[str, ...]]:
    samples = dict(observation.samples).get(gate.metric)
    if samples is None:
        return Missing(code=Code.METRIC_ABSENT, message=f"no samples named {gate.metric}"), ()
    count = len(samples.values)
    if count < max(2, gate.min_samples):
        message = f"{count} processes gave a value, {gate.min_samples} are needed"
        return Missing(code=Code.TOO_FEW_PROCESSES, message=message), ()
    _, values = _judged_values(gate, observation)
    try:
        std = descriptive.relative_std(values)
    except ValueError as error:
        return Missing(code=Code.INVALID_RESULT, message=str(error)), ()
    if not std > 0:
        message = "all values are equal to the last digit, so they are not measurements"
        return Missing(code=Code.INVALID_RESULT, message=message), ()
    groups = descriptive.split_at_gap(values)
    if groups is None:
        return measured(std, "%"), ()
    slow, fast = (f"{len(group)} near {descriptive.mean(group):.6g} {samples.unit}" for group in groups)
    return measured(std, "%"), (f"two speeds: {slow}, {fast}",)


def _judged_values(gate: Gate, observation: Observation) -> tuple[float, tuple[float, ...]]:
    """Return the slope of cycles over the clock, and the values: cycles at a common clock, if the clock is known."""
    samples = dict(observation.samples)
    values, times = samples[gate.metric].values, samples.get(Scale.TIME.metric)
    if gate.metric != Scale.CYCLES.metric or times is None or len(times.values) != len(values):
        return 0.0, values
    found = at_common_clock((values, times.values))
    return found.slope, found.cycles[0]


def _facts(check: Check, observation: Observation) -> Iterator[tuple[str, str]]:
    gate = check.gate
    if gate.statistic is not Statistic.VALUE:
        for name, samples in observation.samples:
            if name == gate.metric:
                yield "processes", str(len(samples.values))
                slope, _ = _judged_values(gate, observation)
                yield from _power_facts(check, len(samples.values), slope)
            yield name, _range_text(samples.values, samples.unit)
        return
    family = gate.metric.split("/")[0]
    for name, reading in observation.readings:
        if name != gate.metric and name.split("/")[0] == family:
            yield name, f"{reading.value:.6g} {reading.unit}" if isinstance(reading, Measured) else f"none: {reading.message}"


def _power_facts(check: Check, count: int, slope: float) -> Iterator[tuple[str, str]]:
    df = count - 1 - (slope > 0.0)
    if slope > 0.0:
        yield "clock", f"cycles rise by {slope:.2f} % with each per cent of the clock, and are compared at a common one"
    if df > 0:
        spread = check.limit.value * math.sqrt(df / chi2_quantile(STABILITY_POWER, df))
        yield "sees", f"{count} processes detect a true spread of {spread:.2g} {check.limit.unit} with 95 % power"


def _range_text(values: tuple[float, ...], unit: str) -> str:
    if not values:
        return "no value"
    text = f"{min(values):.6g} to {max(values):.6g} {unit}"
    try:
        return f"{text}, std {descriptive.relative_std(values):.2g} %"
    except ValueError:
        return text


def findings_for(gate: Gate, observation: Observation) -> tuple[Finding, ...]:
    """Select the findings of the gate's own tool."""
    tool = gate.metric.split("/")[0]
    return tuple(f for f in observation.findings if gate.evidence is not Kind.SANITIZER or f.tool == tool)
