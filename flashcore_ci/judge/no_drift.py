"""The gate ``no-drift``: today's timings against the baseline of this kind of machine.

``no-slower`` lets through what is within its margin, each time; ten times 0.4 % is 4 %. Here the margin is wide, since days and
machines differ, but what is held against it does not move: a reviewed file. The two samples are not paired: Student's
two-sample interval on the logs, its variance moderated as in ``ratios``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from flashcore_ci.judge.no_slower import METRIC
from flashcore_ci.judge.references import ComparisonContext
from flashcore_ci.judge.rules import Evaluation, evaluate_missing
from flashcore_ci.judge.stats.descriptive import mean, sample_std
from flashcore_ci.judge.stats.paired_estimate import Estimate, Prior, moderated_estimate
from flashcore_ci.judge.stats.sequential_test import ALPHA_NULL, BETA, percent
from flashcore_ci.model.baseline import Baseline, BaselineRow
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.metrics import METRICS
from flashcore_ci.model.plan import Check
from flashcore_ci.model.reading import Missing, measured
from flashcore_ci.model.verdict import Outcome, Reason


def evaluate(check: Check, observation: Observation, context: ComparisonContext) -> Evaluation:
    """Judge one workload's timings against its baseline."""
    if observation.missing is not None:
        return evaluate_missing(observation.missing)
    baseline = context.references.baseline(context.provenance)
    row = baseline.of(check.target) if baseline else None
    if baseline is None or row is None or not _comparable(row, observation):
        return evaluate_missing(Missing(code=Code.NO_BASELINE, message=_why_none(check, observation, context, row)))
    samples = dict(observation.samples).get(METRIC[context.primary])
    if samples is None or samples.unit != METRICS[METRIC[context.primary]].unit:
        return evaluate_missing(Missing(code=Code.METRIC_ABSENT, message=f"no samples named {METRIC[context.primary]}"))
    if len(samples.values) < max(2, check.gate.min_samples):
        few = f"{len(samples.values)} processes gave a value, {check.gate.min_samples} are needed"
        return evaluate_missing(Missing(code=Code.TOO_FEW_PROCESSES, message=few))
    try:
        found = change(getattr(row, context.primary), samples.values, context.prior(check.target, context.primary))
    except ValueError as error:
        return evaluate_missing(Missing(code=Code.INVALID_RESULT, message=str(error)))
    return _evaluate(check, found, context, baseline, row)


def change(before: tuple[float, ...], now: tuple[float, ...], prior: Prior | None) -> Estimate:
    """The log ratio of the means of logs. ValueError for values that cannot have been measured."""
    if not all(value > 0 for value in (*before, *now)):
        raise ValueError("a measurement is above zero")
    logs = [[math.log(value) for value in side] for side in (before, now)]
    df = len(before) + len(now) - 2
    variance = math.fsum((len(side) - 1) * sample_std(side) ** 2 for side in logs) / df
    single = Prior(variance=prior.variance / 2.0, df=prior.df) if prior else None  # a round has two processes
    weight = 1.0 / len(before) + 1.0 / len(now)
    return moderated_estimate(mean(logs[1]) - mean(logs[0]), variance, df, weight, rounds=len(now), prior=single)


def _comparable(row: BaselineRow, observation: Observation) -> bool:
    return (row.asked, row.collector) == (observation.identity.workload, observation.identity.collector)


def _evaluate(check: Check, found: Estimate, context: ComparisonContext, baseline: Baseline, row: BaselineRow) -> Evaluation:
    margin = math.log1p(check.limit.value / 100.0)
    lower, upper = found.lower_bound(ALPHA_NULL / context.rows), found.upper_bound(BETA)
    if lower > margin:
        outcome, code = Outcome.FAIL, Code.DRIFTED
    elif upper <= margin:
        outcome, code = Outcome.PASS, Code.FASTER if found.upper_bound(BETA) < -margin else Code.SAME
    else:
        outcome, code = Outcome.INCONCLUSIVE, Code.UNDECIDED
    interval = f"surely {percent(lower):+.2f} % to {percent(upper):+.2f} %"
    message = f"{percent(found.mean):+.2f} % against the baseline of {row.collected_at[:10]}, {interval}; the margin is {check.limit.value:g} %"
    reason = Reason(code=code, message=message, facts=tuple(_facts(found, baseline, row, context)))
    return Evaluation(outcome=outcome, reading=measured(percent(found.mean), "%"), reason=reason)


def _facts(found: Estimate, baseline: Baseline, row: BaselineRow, context: ComparisonContext) -> Iterator[tuple[str, str]]:
    yield "baseline", f"{baseline.device}, driver {baseline.driver}, {row.collected_at}, commit {row.commit[:12]}"
    yield "processes", f"{len(row.ms)} in the baseline, {found.rounds} now"
    yield "rows", str(context.rows)
    if row.collected_at == context.provenance.collected_at:
        yield "note", "the baseline was proposed from this very run"


def _why_none(check: Check, observation: Observation, context: ComparisonContext, row: BaselineRow | None) -> str:
    """Which baseline would have been needed, and what there is instead."""
    device = context.provenance.device
    here = (
        f"{device.name}, driver {device.driver}, clocks {context.provenance.clock_policy}"
        if device
        else "a machine without a GPU"
    )
    if context.references.baseline(context.provenance) is None:
        others = [f"{one.device}, driver {one.driver}, clocks {one.clock_policy}" for one in context.references.baselines]
        return f"there is no baseline for {here}; there are: {'; '.join(others) or 'none'}"
    if row is None:
        return f"the baseline for {here} has no row for {check.target}"
    changed = "the workload" if row.asked != observation.identity.workload else "the collector"
    return f"the baseline for {here} is of something else: {changed} has changed since"
