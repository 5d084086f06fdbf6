"""Properties of verdicts for any evidence."""

import math
from dataclasses import replace

from evidence_factories import good_evidence, make_identity, with_reading
from factories import CHECKS, FINITE, make_build, make_check, make_limit, make_plan, make_waiver
from hypothesis import assume, given
from hypothesis import strategies as st
from report_factories import LIVE

from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.judge.rules import satisfies
from flashcore_ci.judge.stats.descriptive import relative_std
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Measured, Missing, Samples
from flashcore_ci.model.suite import Kind, Rule, Severity
from flashcore_ci.model.verdict import Outcome, StalePolicy

PLAN = make_plan()
BUILDS = (make_build(),)
GOOD = good_evidence(PLAN)

finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.floats(allow_nan=True, allow_infinity=True)
units = st.sampled_from(["count", "%", "abs", "byte", "Mcycle"])
missing = st.builds(
    Missing, code=st.sampled_from([code for code in Code if code is not Code.WITHIN_LIMIT]), message=st.text(max_size=9)
)
readings = st.builds(Measured, value=finite, unit=units) | missing
metrics = st.sampled_from(sorted({check.gate.metric for check in CHECKS}))
samples = st.builds(Samples, values=st.lists(finite, max_size=8).map(tuple), unit=units)
identities = st.just(None) | st.builds(make_identity, launcher=st.just("other"))


@st.composite
def observations(draw):
    """A good observation with anything changed."""
    good = draw(st.sampled_from(GOOD.observations))
    given_readings = draw(st.dictionaries(metrics, readings, max_size=4))
    return replace(
        good,
        readings=draw(st.just(good.readings) | st.just(tuple(given_readings.items()))),
        samples=draw(st.just(good.samples) | st.dictionaries(metrics, samples, max_size=2).map(lambda d: tuple(d.items()))),
        missing=draw(st.none() | missing),
        identity=draw(identities) or good.identity,
    )


evidence = st.lists(observations(), max_size=9).map(lambda found: replace(GOOD, observations=tuple(found)))
waivers = st.lists(
    st.builds(
        lambda check, day: make_waiver(*check.key, expires=day),
        st.sampled_from(CHECKS),
        st.sampled_from(["2026-11-20", "2026-11-21", "2026-12-31"]),
    ),
    max_size=3,
).map(tuple)


def judged(*found, plan=PLAN, waived=(), stale=StalePolicy.BLOCK):
    sources = tuple(Source(origin=LIVE, evidence=item) for item in found)
    return judge(plan, BUILDS, sources, waivers=waived, as_of="2026-11-21", stale=stale, tool="test")


@given(st.lists(evidence, max_size=3), waivers, st.sampled_from(StalePolicy))
def test_every_check_has_one_verdict_and_the_exit_code_follows_from_them(found, waived, stale):
    report = judged(*found, waived=waived, stale=stale)
    assert [(verdict.gate, verdict.target) for verdict in report.verdicts] == [check.key for check in PLAN.checks]
    blocking = {verdict.outcome for verdict in report.verdicts if verdict.blocks}
    assert blocking <= {Outcome.FAIL, Outcome.INCONCLUSIVE}
    expected = 10 if Outcome.FAIL in blocking else 11 if blocking else 0
    assert report.exit_code == expected
    assert (report.outcome is Outcome.PASS) == (expected == 0)
    for verdict in report.verdicts:
        red = verdict.outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE}
        assert verdict.blocks == (red and not verdict.deferred)
        if verdict.outcome is Outcome.PASS:
            assert isinstance(verdict.reading, Measured)
            assert verdict.reading.unit == verdict.unit
            assert satisfies(verdict.rule, verdict.reading.value, verdict.limit)
            assert verdict.origin == LIVE
            assert verdict.reason.code is Code.WITHIN_LIMIT
        if verdict.deferred:
            assert stale is StalePolicy.DEFER
            assert verdict.evidence not in {Kind.BUILD, Kind.RESOURCES}


@given(st.lists(evidence, max_size=2), waivers)
def test_judging_is_a_function(found, waived):
    assert judged(*found, waived=waived) == judged(*found, waived=waived)


@given(st.sampled_from(Rule), numbers, numbers)
def test_nan_satisfies_no_rule(rule, value, limit):
    if math.isnan(value) or math.isnan(limit):
        assert not satisfies(rule, value, limit)


def outcome_of(rule, limit, value, severity=Severity.BLOCKING):
    check = make_check(replace(FINITE, rule=rule, limits=(make_limit(limit, severity=severity),)))
    plan = make_plan((check,))
    found = with_reading(good_evidence(plan), Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=value, unit="count"))
    return judged(found, plan=plan).verdicts[0].outcome


@given(st.sampled_from(Rule), finite, finite, st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_a_worse_value_never_turns_fail_into_pass(rule, limit, value, harm):
    if rule is Rule.EQUAL:  # worse is further from the limit
        worse = value + math.copysign(harm, value - limit)
    else:
        worse = value - harm if rule is Rule.AT_LEAST else value + harm
    assume(math.isfinite(worse) and value >= 0)
    if outcome_of(rule, limit, value) is not Outcome.PASS:
        assert outcome_of(rule, limit, worse) is not Outcome.PASS


@given(st.sampled_from(CHECKS), missing)
def test_a_lost_reading_never_passes(check, lost):
    found = tuple(
        replace(observation, missing=lost)
        if (observation.kind, observation.target) == (check.gate.evidence, check.target)
        else observation
        for observation in GOOD.observations
    )
    report = judged(replace(GOOD, observations=found))
    verdict = next(v for v in report.verdicts if (v.gate, v.target) == check.key)
    assert verdict.outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE}
    assert report.exit_code != 0


@given(st.sampled_from(["launcher", "binding", "source"]), st.text(min_size=1, max_size=9), st.sampled_from(StalePolicy))
def test_evidence_of_other_code_never_passes_and_names_what_changed(part, value, stale):
    changed = make_build(**{part: value})
    assume(changed != BUILDS[0])
    sources = (Source(origin=LIVE, evidence=GOOD),)
    report = judge(PLAN, (changed,), sources, waivers=(), as_of="2026-11-21", stale=stale, tool="test")
    name = "subject" if part == "source" else part
    assert {verdict.outcome for verdict in report.verdicts} == {Outcome.INCONCLUSIVE}
    assert {verdict.reason.facts for verdict in report.verdicts} == {(("changed", name),)}


@given(evidence, waivers)
def test_waivers_change_failures_to_waived_and_nothing_else(found, waived):
    before, after = judged(found), judged(found, waived=waived)
    active = {(waiver.gate, waiver.target) for waiver in waived if waiver.expires >= "2026-11-21"}
    for old, new in zip(before.verdicts, after.verdicts, strict=True):
        is_limit = isinstance(old.reading, Measured) and old.reason.code in {Code.OVER_LIMIT, Code.UNDER_LIMIT}
        if not is_limit or old.outcome is Outcome.PASS or (old.gate, old.target) not in active:
            assert new == old
        else:
            assert new.outcome is Outcome.WAIVED
            assert (new.reason, new.reading) == (old.reason, old.reading)


@given(st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=2, max_size=9), st.floats(min_value=1e-3, max_value=1e3))
def test_a_relative_spread_does_not_depend_on_the_unit(values, factor):
    scaled = [value * factor for value in values]
    assert math.isclose(relative_std(values), relative_std(scaled), rel_tol=1e-6, abs_tol=1e-9)
    assert relative_std(values) >= 0
