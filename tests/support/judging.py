"""Judge the plan of ``factories`` with one call."""

from evidence_factories import good_evidence, good_observation, make_evidence, with_reading
from factories import FINITE, make_build, make_plan
from report_factories import LIVE

from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import StalePolicy

PLAN = make_plan()
BUILDS = (make_build(),)
GOOD = good_evidence(PLAN)
RED = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=3.0, unit="count"))  # one check of GOOD fails
NOON = "2026-11-21T12:00:00Z"


def judged(*evidence, plan=PLAN, builds=BUILDS, origin=LIVE, waivers=(), as_of=NOON, stale=StalePolicy.BLOCK, **against):
    sources = tuple(item if isinstance(item, Source) else Source(origin=origin, evidence=item) for item in evidence)
    report = judge(plan, builds, sources, waivers=waivers, as_of=as_of, stale=stale, tool="test", **against)
    assert [(verdict.gate, verdict.target) for verdict in report.verdicts] == [check.key for check in plan.checks]
    return report


def only(report, gate, target="big"):
    return next(verdict for verdict in report.verdicts if (verdict.gate, verdict.target) == (gate, target))


def verdict_on_plan_of(check, *observations, **keywords):
    """The verdict on a plan of this one check."""
    plan = make_plan((check,))
    return judged(make_evidence(observations=observations), plan=plan, **keywords).verdicts[0]


def verdict_with(check, **changes):
    """The verdict on a good observation with ``changes``."""
    plan = make_plan((check,))
    return verdict_on_plan_of(check, good_observation(plan, BUILDS[0], check.gate.evidence, check.target, **changes))
