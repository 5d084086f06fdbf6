import math
from dataclasses import replace

import pytest
from evidence_factories import make_observation
from factories import make_description, make_workload
from history_factories import BUILD, PLAN, VERDICTS, compared, evidence_of, new_run

from flashcore_ci.history.measured import points_of
from flashcore_ci.history.rows import rows_of
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.identity import GRAPH_LAUNCHES, NO_MACHINE_CODE, SAME_CODE
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind


def big(*more, **provenance):
    points = points_of(PLAN, evidence_of(*more, **provenance), VERDICTS, "digest")
    return next(point for point in points if point.series["workload"] == "big")


def test_a_point_has_the_summary_the_readings_and_the_facts_of_its_code():
    point = big()
    assert point.own["ms"] == pytest.approx(0.6514)
    assert point.own["ms_std"] == pytest.approx(0.0027, rel=0.02)
    assert point.own["megacycles"] == pytest.approx(1.12012)
    assert {"mhz", "mhz_std", "sol/dram"} <= set(point.own)
    assert point.shared["diff/max"] == 0.0005
    assert point.point == {"outcome": 3, "samples": 5}  # memcheck failed
    assert [entry["symbol"] for entry in point.entries] == ["scale_f32"]
    assert point.entries[0]["registers"] == BUILD.entries[0].registers
    assert point.series["scale"] == "ms"


def test_a_ratio_is_the_mean_log_of_head_over_base_with_its_standard_error():
    ((code, ratio),) = big(compared()).ratios
    logs = [math.log(y / x) for x, y in zip((1.0, 1.01, 1.02), (1.02, 1.03, 1.05), strict=True)]
    mean = sum(logs) / 3
    assert ratio["log_ratio"] == pytest.approx(mean)
    assert ratio["standard_error"] == pytest.approx(math.sqrt(sum((x - mean) ** 2 for x in logs) / 2 / 3))
    assert (ratio["df"], ratio["rounds"]) == (2, 3)
    assert code["machine_code"] == "the base's"


def test_a_parent_and_an_anchor_are_two_ratios_and_a_repeated_base_is_one():
    anchor = replace(compared().base, machine_code="the anchor's")
    point = big(compared(), compared(base=(1.0, 1.1, 1.3)), replace(compared(), base=anchor))
    assert [code["machine_code"] for code, _ in point.ratios] == ["the base's", "the anchor's"]


def test_equal_code_has_the_ratio_zero_and_no_error():
    identity = compared().identity
    readings = ((SAME_CODE, Measured(value=1.0, unit="count")),)
    ((code, ratio),) = big(replace(compared(), base=identity, readings=readings, samples=())).ratios
    assert ratio == {"log_ratio": 0.0, "standard_error": None, "df": 0.0, "rounds": 0, "far": None}
    assert code["identity"] == big().code["identity"]


@pytest.mark.parametrize(
    "observation",
    [
        compared(base=(1.0, 1.0, 0.0)),
        compared(base=(1.0, -1.0, 1.0)),
        compared(base=(1.0, 1.0)),
        compared(base=(1.0,), head=(1.0,)),
        compared(base=(), head=()),
        compared(base=(1.0, 1.0, 1.0), head=(1.0, 1.0, 1.0)),
        replace(compared(), base=None),
        replace(compared(), base=replace(compared().base, workload="another question")),
        replace(compared(), base=replace(compared().base, collector="another collector")),
        replace(compared(), base=replace(compared().base, subject="another subject")),
        replace(compared(), identity=replace(compared().identity, machine_code="never built")),
    ],
)
def test_what_is_no_comparison_of_this_code_has_no_ratio(observation):
    assert big(observation).ratios == ()


def test_code_that_no_digest_covers_is_never_equal_to_other_code():
    uncovered = replace(compared(), base=replace(compared().base, machine_code=NO_MACHINE_CODE))
    digests = ("one run", "another run")
    found = [points_of(PLAN, evidence_of(uncovered), VERDICTS, digest) for digest in digests]
    identities = [point.ratios[0][0]["identity"] for points in found for point in points if point.ratios]
    assert len(set(identities)) == len(digests)


def test_readings_of_other_code_do_not_count():
    lie = make_observation(Kind.PROFILE, "big", readings=(("sol/tensor", Measured(value=99.0, unit="%")),))
    assert "sol/tensor" not in big(lie).own


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": replace(PLAN, workloads=(*PLAN.workloads, make_workload("big", seed=9)))},
        {"plan": replace(PLAN, descriptions=(make_description("other"),))},
    ],
)
def test_an_impossible_plan_is_refused(changes):
    with pytest.raises(EvidenceError):
        rows_of(new_run(**changes))


def test_impossible_numbers_are_refused():
    for readings in (
        (("sol/sm", Measured(value=1e300, unit="%")),),
        tuple((f"made/{index}", Measured(value=1.0, unit="%")) for index in range(100)),
    ):
        good = next(o for o in evidence_of().observations if o.kind is Kind.PROFILE)
        with pytest.raises(EvidenceError):
            big(replace(good, readings=readings))


def test_a_slope_begins_a_new_stretch():
    """Its absolute times cannot be compared with those of one graph."""
    found = evidence_of()
    (timed,) = (one for one in found.observations if one.kind is Kind.TIMING and one.target == "big")
    slope = replace(timed, readings=(*timed.readings, (GRAPH_LAUNCHES, Measured(value=41.0, unit="count"))))
    rest = tuple(one for one in found.observations if one is not timed)
    point = next(
        one
        for one in points_of(PLAN, replace(found, observations=(*rest, slope)), VERDICTS, "digest")
        if one.series["workload"] == "big"
    )
    before, after = big().epoch, point.epoch
    assert before["collector"] == timed.identity.collector
    assert {name for name in before if before[name] != after[name]} == {"collector"}
