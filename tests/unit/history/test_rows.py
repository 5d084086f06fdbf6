import json
from dataclasses import replace

import pytest
from evidence_factories import make_device
from factories import make_build, make_entry_build
from history_factories import PLAN, evidence_of, new_run
from report_factories import make_verdict

from flashcore_ci.history.cells import label, line
from flashcore_ci.history.rows import content_digest, rows_of
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.verdict import Outcome


def test_passing_verdicts_are_compact_and_failed_ones_are_whole():
    rows = rows_of(new_run())
    assert [(row["gate"], row["outcome"]) for row in rows.verdicts] == [("memcheck", "FAIL")]
    assert json.loads(rows.verdicts[0]["record"])["title"] == "the gate memcheck"
    assert rows.check_set["count"] == len({*(check.key for check in PLAN.checks), ("memcheck", "big"), ("finite", "big")})


def test_the_worst_of_two_verdicts_on_one_check_counts():
    verdicts = tuple(make_verdict("finite", "big", outcome) for outcome in (Outcome.FAIL, Outcome.PASS, Outcome.WAIVED))
    assert [row["outcome"] for row in rows_of(new_run(verdicts=verdicts)).verdicts] == ["FAIL"]


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\x1b[31mred", "\u202eabc", "a\nb", "x" * 5000])
def test_names_are_visible_and_stay_different(text):
    shown = label(text)
    assert shown.isprintable()
    assert shown != label(text + " ")
    assert label("plain name") == "plain name"
    assert line(text).isprintable()
    shown.encode()


@pytest.mark.parametrize("changes", [{"registers": 2**60}, {"waits": -(2**60)}, {"opcodes": (("HGMMA", 2**60),)}])
def test_numbers_that_no_column_keeps_are_refused(changes):
    build = make_build(entries=(make_entry_build(**changes),))
    evidence = evidence_of()
    with pytest.raises(EvidenceError):
        rows_of(new_run(replace(evidence, builds=(build,))))
    with pytest.raises(EvidenceError):
        rows_of(new_run(evidence_of(device=make_device(memory=2**63))))


def test_a_moment_with_a_zone_is_that_moment():
    zoned = rows_of(new_run(evidence_of(collected_at="2026-11-21T10:00:00+02:00")))
    assert zoned.run["collected_at"] == rows_of(new_run()).run["collected_at"]


def test_the_digest_of_a_shared_row_covers_all_that_it_says():
    row = {"a": 1, "b": b"x"}
    assert len({content_digest(row), content_digest({**row, "a": 2}), content_digest({**row, "b": b"y"})}) == 3


def test_a_run_says_how_long_each_kind_of_evidence_took():
    rows = rows_of(new_run(evidence_of()))
    stages = json.loads(rows.run["stages"])
    evidence = evidence_of()
    assert sum(stages.values()) == round(sum(observation.seconds for observation in evidence.observations), 3)
    assert set(stages) <= {observation.kind.value for observation in evidence.observations}


def test_a_point_says_how_much_work_a_call_is():
    points = {point.series["workload"]: point for point in rows_of(new_run()).points}
    assert points["big"].shared["work/flops"] > 0
    assert points["big"].shared["work/bytes"] > 0
