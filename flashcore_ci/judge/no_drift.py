"""The gate ``no-drift``: compare timings with the baseline of this kind of machine.

Unlike the base of ``no-slower``, a merge does not move it, so small slowdowns add up. Samples are not paired: this is Student's
two-sample interval on the logs. Cycles are compared at a common clock (``stats/common_clock.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from flashcore_ci.judge.references import ComparisonContext
from flashcore_ci.judge.rules import Evaluation, evaluate_missing
from flashcore_ci.judge.stats.common_clock import at_common_clock
from flashcore_ci.judge.stats.descriptive import mean, sample_std
from flashcore_ci.judge.stats.paired_estimate import Estimate, moderated_estimate
from flashcore_ci.judge.stats.sequential_test import ALPHA_NULL, BETA, percent
from flashcore_ci.model.baseline import Baseline, BaselineRow
from flashcore_ci.model.codes import Code
from flashcore_ci.model.devices import GPUS
from flashcore_ci.model.evidence import Observation, machine_class
from flashcore_ci.model.identity import how_timed
from flashcore_ci.model.metrics import METRICS, Scale
from flashcore_ci.model.plan import Check
from flashcore_ci.model.reading import Missing, measured
from flashcore_ci.model.verdict import Outcome, Reason


def evaluate(check: Check, observation: Observation, context: ComparisonContext) -> Evaluation:
    """Evaluate the timings of one workload."""
    if observation.missing is not None:
        return evaluate_missing(observation.missing)
    baseline = context.references.baseline(context.provenance)
    row = baseline.of(check.target) if baseline else None
    if baseline is None or row is None or not _is_comparable(row, observation):
        code = Code.FIRST_RUN if _is_first_run(context) else Code.NO_BASELINE
        return evaluate_missing(Missing(code=code, message=_why_no_baseline(check, observation, context, row)))
    metric = context.primary.metric
    samples = dict(observation.samples).get(metric)
    if samples is None or samples.unit != METRICS[metric].unit:
        return evaluate_missing(Missing(code=Code.METRIC_ABSENT, message=f"no samples named {metric}"))
    if len(samples.values) < max(2, check.gate.min_samples):
        few = f"{len(samples.values)} processes gave a value, {check.gate.min_samples} are needed"
        return evaluate_missing(Missing(code=Code.TOO_FEW_PROCESSES, message=few))
    try:
        times = dict(observation.samples).get(Scale.TIME.metric)
        drift = estimate_drift(row.ms, samples.values)
        if context.primary is Scale.CYCLES:
            clock = at_common_clock((row.megacycles, row.ms), (samples.values, times.values if times else ()))
            drift = estimate_drift(*clock.cycles, leverage=clock.leverage)
    except ValueError as error:
        return evaluate_missing(Missing(code=Code.INVALID_RESULT, message=str(error)))
    return _evaluated(check, drift, context, baseline, row)


def estimate_drift(before: tuple[float, ...], now: tuple[float, ...], *, leverage: float = 0.0) -> Estimate:
    """Estimate the difference of mean logs. ValueError for impossible values. The recorded noise is of comparisons, and not used."""
    if not all(value > 0 for value in (*before, *now)):
        raise ValueError("a measurement is above zero")
    logs = [[math.log(value) for value in side] for side in (before, now)]
    df = len(before) + len(now) - 2
    variance = math.fsum((len(side) - 1) * sample_std(side) ** 2 for side in logs) / df
    weight = 1.0 / len(before) + 1.0 / len(now) + leverage
    return moderated_estimate(mean(logs[1]) - mean(logs[0]), variance, df, weight, rounds=len(now), prior=None)


def decide(drift: Estimate, *, limit: float, rows: int) -> tuple[Outcome, Code]:
    """Compare a drift with the limit (%). ``rows`` share alpha."""
    margin = math.log1p(limit / 100.0)
    lower, upper = drift.lower_bound(ALPHA_NULL / rows), drift.upper_bound(BETA)
    if lower > margin:
        return Outcome.FAIL, Code.DRIFTED
    if upper <= margin:
        return Outcome.PASS, Code.FASTER if upper < -margin else Code.SAME
    return Outcome.INCONCLUSIVE, Code.UNDECIDED


def _is_first_run(context: ComparisonContext) -> bool:
    """Whether no machine of this class has a baseline, and the evidence really is of this class."""
    provenance = context.provenance
    device = provenance.device
    if device is None or not context.vouched or context.references.knows(provenance):
        return False
    known = GPUS.get(device.name)
    is_whole = known is None or (known.capability, known.multiprocessors) == (device.compute_capability, device.multiprocessors)
    return is_whole and provenance.machine_class == machine_class(device)


def _is_comparable(row: BaselineRow, observation: Observation) -> bool:
    return (row.asked, row.collector) == (observation.identity.workload, how_timed(observation))


def _evaluated(check: Check, drift: Estimate, context: ComparisonContext, baseline: Baseline, row: BaselineRow) -> Evaluation:
    outcome, code = decide(drift, limit=check.limit.value, rows=context.rows)
    lower, upper = drift.lower_bound(ALPHA_NULL / context.rows), drift.upper_bound(BETA)
    result = f"{percent(drift.mean):+.2f} % compared with the baseline of {row.collected_at[:10]}"
    bounds = f"(confidence bounds {percent(lower):+.2f} % and {percent(upper):+.2f} %)"
    message = f"{result} {bounds}, margin {check.limit.value:g} %"
    reason = Reason(code=code, message=message, facts=tuple(_facts(drift, baseline, row, context)))
    return Evaluation(outcome=outcome, reading=measured(percent(drift.mean), "%"), reason=reason)


def _facts(drift: Estimate, baseline: Baseline, row: BaselineRow, context: ComparisonContext) -> Iterator[tuple[str, str]]:
    yield "baseline", f"{baseline.device}, driver {baseline.driver}, {row.collected_at}, commit {row.commit[:12]}"
    yield "processes", f"{len(row.ms)} in the baseline, {drift.rounds} now"
    yield "rows", str(context.rows)
    if row.collected_at == context.provenance.collected_at:
        yield "note", "the baseline was proposed from this very run"


def _why_no_baseline(check: Check, observation: Observation, context: ComparisonContext, row: BaselineRow | None) -> str:
    device = context.provenance.device
    machine = "{}, driver {}, clocks {}".format
    here = machine(device.name, device.driver, context.provenance.clock_policy) if device else "a machine without a GPU"
    if context.references.baseline(context.provenance) is None:
        others = [f"({machine(*known.key)})" for known in context.references.baselines]
        return f"there is no baseline for {here}. The checkout has {', '.join(others) or 'none'}"
    if row is None:
        return f"the baseline for {here} has no row for {check.target}"
    changed = "the workload" if row.asked != observation.identity.workload else "the way of timing it"
    return f"the baseline for {here} is of something else: {changed} has changed since"
