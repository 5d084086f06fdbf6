"""From an observation to a number, and from a number to yes or no. NaN is never a yes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from flashcore_ci.judge.stats import descriptive
from flashcore_ci.judge.stats.distributions import chi2_quantile
from flashcore_ci.model.codes import SUBJECT_AT_FAULT, Code
from flashcore_ci.model.evidence import Finding, Observation
from flashcore_ci.model.metrics import METRICS
from flashcore_ci.model.plan import Check
from flashcore_ci.model.reading import Measured, Missing, Reading, measured
from flashcore_ci.model.suite import Gate, Kind, Rule, Statistic
from flashcore_ci.model.verdict import Outcome, Reason

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of one check before waivers: what was read, and why that is good or not."""

    outcome: Outcome
    reading: Reading
    reason: Reason
    notes: tuple[str, ...] = ()


def answer(check: Check, observation: Observation) -> Answer:
    """Judge one observation by its check."""
    reading, notes = _reading(check.gate, observation)
    facts = tuple(_facts(check, observation))
    if isinstance(reading, Missing):
        return unanswered(reading, facts)
    most = METRICS[check.gate.metric].maximum if check.gate.metric in METRICS else math.inf
    if reading.value < 0 or reading.value > most:  # -1 for "none" would be within most limits
        impossible = f"{reading.value:g} {reading.unit}: {check.gate.metric} is never below 0{_above(most)}"
        return unanswered(Missing(code=Code.INVALID_RESULT, message=impossible), facts)
    limit = check.limit
    asked = f"{check.gate.rule} {limit.value:g} {limit.unit}"
    if reading.unit != limit.unit:
        reason = Reason(code=Code.UNIT_MISMATCH, message=f"{reading.value:g} {reading.unit} against {asked}", facts=facts)
        return Answer(outcome=Outcome.INCONCLUSIVE, reading=reading, reason=reason, notes=notes)
    if holds(check.gate.rule, reading.value, limit.value):
        reason = Reason(code=Code.WITHIN_LIMIT, message=f"{reading.value:g} {reading.unit} {asked}", facts=facts)
        return Answer(outcome=Outcome.PASS, reading=reading, reason=reason, notes=notes)
    code = _broken(check.gate.rule, reading.value, limit.value)
    reason = Reason(code=code, message=f"{reading.value:g} {reading.unit} is not {asked}", facts=facts)
    return Answer(outcome=Outcome.FAIL, reading=reading, reason=reason, notes=notes)


def unanswered(missing: Missing, facts: Facts = ()) -> Answer:
    """No number: FAIL when that is the subject's own doing, else INCONCLUSIVE."""
    outcome = Outcome.FAIL if missing.code in SUBJECT_AT_FAULT else Outcome.INCONCLUSIVE
    return Answer(outcome=outcome, reading=missing, reason=Reason(code=missing.code, message=missing.message, facts=facts))


def holds(rule: Rule, value: float, limit: float) -> bool:
    """Whether ``value`` keeps the rule. False whenever either is NaN: no comparison with NaN is true."""
    return {
        Rule.LESS: value < limit,
        Rule.AT_MOST: value <= limit,
        Rule.AT_LEAST: value >= limit,
        Rule.EQUAL: value == limit,
    }[rule]


def _above(most: float) -> str:
    return f" and never above {most:g}" if math.isfinite(most) else ""


def _broken(rule: Rule, value: float, limit: float) -> Code:
    below = rule is Rule.AT_LEAST or (rule is Rule.EQUAL and value < limit)
    return Code.UNDER_LIMIT if below else Code.OVER_LIMIT


def _reading(gate: Gate, observation: Observation) -> tuple[Reading, tuple[str, ...]]:
    """The number that the gate judges, with what is worth saying about it."""
    if observation.missing is not None:
        return observation.missing, ()
    if gate.statistic is Statistic.VALUE:
        return observation.reading(gate.metric), ()
    return _spread(gate, observation)


def _spread(gate: Gate, observation: Observation) -> tuple[Reading, tuple[str, ...]]:
    """Relative standard deviation in % over the samples, one for each fresh process."""
    samples = dict(observation.samples).get(gate.metric)
    if samples is None:
        return Missing(code=Code.METRIC_ABSENT, message=f"no samples named {gate.metric}"), ()
    count = len(samples.values)
    if count < max(2, gate.min_samples):
        message = f"{count} processes gave a value, {gate.min_samples} are needed"
        return Missing(code=Code.TOO_FEW_PROCESSES, message=message), ()
    try:
        spread = descriptive.relative_std(samples.values)
    except ValueError as error:
        return Missing(code=Code.INVALID_RESULT, message=str(error)), ()
    if not spread > 0:
        return Missing(code=Code.INVALID_RESULT, message="every value is the same to the last digit: that is no measurement"), ()
    groups = descriptive.two_groups(samples.values)
    if groups is None:
        return measured(spread, "%"), ()
    slow, fast = (f"{len(group)} near {descriptive.mean(group):.6g} {samples.unit}" for group in groups)
    return measured(spread, "%"), (f"two speeds: {slow}, {fast}",)


def _facts(check: Check, observation: Observation) -> Iterator[tuple[str, str]]:
    """What stands beside the judged number: for a statistic all samples, else the readings of the same family."""
    gate = check.gate
    if gate.statistic is not Statistic.VALUE:
        for name, samples in observation.samples:
            if name == gate.metric:
                yield "processes", str(len(samples.values))
                yield from _sight(check, len(samples.values))
            yield name, _range(samples.values, samples.unit)
        return
    family = gate.metric.split("/")[0]
    for name, reading in observation.readings:
        if name != gate.metric and name.split("/")[0] == family:
            yield name, f"{reading.value:.6g} {reading.unit}" if isinstance(reading, Measured) else f"none: {reading.message}"


def _sight(check: Check, count: int) -> Iterator[tuple[str, str]]:
    """How large a true spread so many processes overlook no more than one time in twenty, by the distribution of a variance."""
    if count > 1:
        seen = check.limit.value * math.sqrt((count - 1) / chi2_quantile(0.95, count - 1))
        yield "sees", f"a true spread of {seen:.2g} {check.limit.unit} is red 19 times in 20 with {count} processes"


def _range(values: tuple[float, ...], unit: str) -> str:
    if not values:
        return "no value"
    text = f"{min(values):.6g} to {max(values):.6g} {unit}"
    try:
        return f"{text}, std {descriptive.relative_std(values):.2g} %"
    except ValueError:
        return text


def findings_for(gate: Gate, observation: Observation) -> tuple[Finding, ...]:
    """The observation's findings that belong to this gate: one sanitizer's are not another's."""
    tool = gate.metric.split("/")[0]
    return tuple(f for f in observation.findings if gate.evidence is not Kind.SANITIZER or f.tool == tool)
