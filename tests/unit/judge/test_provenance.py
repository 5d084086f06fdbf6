from dataclasses import replace

import pytest
from evidence_factories import make_device, make_provenance
from judging import GOOD, PLAN, judged, only
from report_factories import RECORDED

from flashcore_ci.judge.judge import Source
from flashcore_ci.judge.provenance import is_within, moment_of, refusal
from flashcore_ci.model.codes import Code
from flashcore_ci.model.suite import Accepts, Kind, VersionRange
from flashcore_ci.model.verdict import Outcome

NEW = VersionRange(first="2025.3", below="2026")
ACCEPTS = Accepts(
    devices=("NVIDIA H200",),
    driver=VersionRange(first="570", below="600"),
    tools=(("compute-sanitizer", VersionRange(first="2026.4", below="2027")), ("ncu", NEW)),
    max_age_days=7.0,
)
STRICT = replace(PLAN, accepts=ACCEPTS)
NOON = "2026-11-21T12:00:00Z"


def code(kind=Kind.PROFILE, accepts=ACCEPTS, as_of=NOON, max_age_days=7.0, **changes):
    found = refusal(make_provenance(**changes), kind, accepts, as_of=as_of, max_age_days=max_age_days)
    return found and found.code


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"device": None}, Code.OTHER_DEVICE),
        ({"device": make_device(name="NVIDIA H100")}, Code.OTHER_DEVICE),
        ({"device": make_device(driver="600.1")}, Code.OTHER_DRIVER),
        ({"device": make_device(driver="")}, Code.OTHER_DRIVER),
        ({"tools": ()}, Code.NO_TOOLS),
        ({"tools": (("compute-sanitizer", "2026.4"),)}, Code.NO_TOOLS),
        ({"tools": (("ncu", "2024.1"),)}, Code.OTHER_TOOLS),
        ({"tools": (("ncu", ""),)}, Code.OTHER_TOOLS),
        ({"collected_at": "2026-11-21T12:04:00Z"}, None),
        ({"collected_at": "2026-11-21T12:06:00Z"}, Code.FROM_THE_FUTURE),
        ({"collected_at": "2026-11-21T12:00:00-01:00"}, Code.FROM_THE_FUTURE),
        ({"collected_at": "2026-11-14T11:59:00Z"}, Code.TOO_OLD),
    ],
)
def test_what_does_not_count(changes, expected):
    assert code(**changes) == expected


def test_only_the_tool_of_the_evidence_is_demanded():
    assert code(Kind.CORRECTNESS, tools=(("torch", "2.11.0+cu130"),)) is None
    assert code(Kind.SANITIZER, accepts=None, tools=(("torch", "2.11.0"),)) is Code.NO_TOOLS
    assert code(Kind.CORRECTNESS, accepts=None, tools=()) is Code.NO_TOOLS


def test_without_a_suite_s_word_any_machine_counts_but_not_the_future():
    assert code(accepts=None, max_age_days=None, device=None, collected_at="2001-01-01") is None
    assert code(accepts=None, collected_at="2026-11-22") is Code.FROM_THE_FUTURE


@pytest.mark.parametrize(
    ("version", "within"),
    [
        *(("2025.3", True), ("2025.3.0.0", True), ("2025.3.1+local", True), ("2025.10", True), ("2025.2.9", False)),
        *(
            ("2026", False),
            ("2026.0", False),
            ("2025", False),
            ("", False),
            ("2025.3rc1", False),
            ("2025.3\n", False),
            ("-1", False),
        ),
    ],
)
def test_ranges_compare_numbers(version, within):
    assert is_within(version, NEW) is within


def test_a_day_alone_is_its_end():
    assert moment_of("2026-11-21") == moment_of("2026-11-22T00:00:00Z")


def test_refused_evidence_is_inconclusive_and_accepted_evidence_wins():
    foreign = replace(GOOD, provenance=make_provenance(device=make_device(name="NVIDIA A100")))
    alone = only(judged(foreign, plan=STRICT), "finite")
    assert (alone.outcome, alone.reason.code, alone.blocks) == (Outcome.INCONCLUSIVE, Code.OTHER_DEVICE, True)
    recordings = (Source(origin=RECORDED, evidence=evidence) for evidence in (foreign, GOOD))
    assert only(judged(*recordings, plan=STRICT), "finite").outcome is Outcome.PASS


def test_an_old_recording_counts_unless_an_age_is_demanded():
    old = replace(GOOD, provenance=make_provenance(collected_at="2026-01-01T00:00:00Z"))
    assert only(judged(old, plan=STRICT), "finite").outcome is Outcome.PASS
    assert only(judged(old, plan=STRICT, max_age_days=7.0), "finite").reason.code is Code.TOO_OLD
