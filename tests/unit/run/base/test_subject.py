"""When the base's subject files are asked."""

from dataclasses import replace
from pathlib import Path

from bars import ORIGIN, accept, describe, read
from evidence_factories import make_evidence, make_observation
from factories import make_build

from flashcore_ci.model.bar import BarChange, BarDifference
from flashcore_ci.model.codes import Code
from flashcore_ci.plan.planner import plan_again
from flashcore_ci.run.base import prepare, subject
from flashcore_ci.run.base.bar import ComparedBar
from flashcore_ci.run.request import Request

REQUEST = Request(suite=Path("tiny.toml"), out=Path("out"), environ={}, base="0" * 40)
CHANGED = BarChange(code=Code.SUBJECT_CHANGED, where="subject-file scale", before="a", after="b", subject="scale")
DIFFERENCE = BarDifference(base="b" * 64, digest="d" * 64, changes=(CHANGED,))
COMPARED = ComparedBar(difference=DIFFERENCE, acceptances=(), origin=ORIGIN)


def prepared(compared, request=REQUEST):
    with subject.prepare_again(compared, request, lambda _: None) as again:
        return again


def test_nothing_is_prepared_without_a_change_or_with_an_acceptance():
    assert prepared(None) is None
    assert prepared(replace(COMPARED, difference=replace(DIFFERENCE, changes=()))) is None
    assert prepared(replace(COMPARED, acceptances=(accept(DIFFERENCE),))) is None


def test_a_failure_is_a_verdict_and_no_crash(monkeypatch):
    monkeypatch.setattr(subject, "_prepare", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    again = prepared(COMPARED)
    assert (again.problem, again.judged) == ("the disk is full", ())
    (verdict,) = subject.bar_verdicts(COMPARED, again, (), REQUEST, as_of="2026-11-22", tool="test")
    assert (verdict.blocks, verdict.reason.code) == (True, Code.SUBJECT_CHANGED)


def test_every_measured_check_is_asked_again_with_the_bases_limits(tmp_path):
    side = read(tmp_path / "base", waivers="")
    plan = plan_again(side.suite, side.descriptions)
    again = subject.SecondJudgement(subjects=("scale",), suite=side.suite, plan=plan, builds=(make_build(),))
    bar, *verdicts = subject.bar_verdicts(COMPARED, again, (), REQUEST, as_of="2026-11-22", tool="test")
    assert bar.outcome == "PASS"
    assert {v.gate.removesuffix(" (base's subject)") for v in verdicts} == {
        "max-diff",
        "finite",
        "memcheck",
        "stability",
        "no-slower",
    }
    assert all(v.blocks for v in verdicts)


def test_a_file_that_is_its_own_kernel_is_not_judged_by_the_bases(tmp_path):
    side = read(tmp_path / "base")
    jit = (replace(describe(("edge",)), build=None),)
    again = subject.SecondJudgement(subjects=("scale",), suite=side.suite, plan=plan_again(side.suite, jit), builds=())
    assert again.judged == ()


def test_a_file_that_is_its_own_kernel_is_not_measured_again(tmp_path, monkeypatch):
    side = read(tmp_path / "base")
    jit = (replace(describe(("edge",)), build=None),)
    monkeypatch.setattr(subject.git_export, "export", lambda *_, **__: None)
    monkeypatch.setattr(subject, "load", lambda *_, **__: side.suite)
    monkeypatch.setattr(subject, "describe", lambda *_, **__: jit)
    assert prepared(COMPARED).plan is None


def test_the_same_measurement_is_kept_once():
    first, again = make_evidence(observations=(make_observation(),)), make_observation(seconds=9.0)
    other = replace(again, identity=replace(again.identity, subject="the base's"))
    found = subject._add(first, make_evidence(observations=(again, other)))
    assert found.observations == (*first.observations, other)


def test_new_is_what_the_bases_own_suite_does_not_have(tmp_path):
    head = read(tmp_path / "head").suite.workloads
    read(tmp_path / "base")
    fresh = replace(head[0], id="fresh", params=(("n", 9),))
    assert prepare._new_workloads((*head, fresh), tmp_path / "base", Path("tiny.toml")) == {"fresh"}
    assert prepare._new_workloads((*head, fresh), tmp_path / "nowhere", Path("tiny.toml")) == frozenset()
