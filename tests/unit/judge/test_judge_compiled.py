"""Kernels that a framework compiles when they run: what recorded evidence and a comparison prove."""

from dataclasses import replace
from typing import Any

import pytest
from comparing import BUILD, CHECK, comparison, context, rounds, samples_of
from evidence_factories import good_evidence
from factories import CHECKS, SPILLS, make_build, make_check, make_description, make_plan, make_problem
from judging import judged, only
from report_factories import LIVE, RECORDED

from flashcore_ci.judge import no_slower
from flashcore_ci.judge.judge import Source
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import BuildEvidence, JitModule, Observation
from flashcore_ci.model.identity import NO_MACHINE_CODE
from flashcore_ci.model.jit import BASE, LIBRARY, is_complete
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind, Scope
from flashcore_ci.model.verdict import Outcome

VERSIONS = (("file:scale.py", "digest"), ("torch", "2.11.0"))
CHECKED = tuple(check for check in CHECKS if check.scope is Scope.WORKLOAD)
PROBLEMS = tuple(make_problem(workload, entries=()) for workload in ("big", "small"))
PLAN = make_plan(CHECKED, descriptions=(make_description(build=None, problems=PROBLEMS),))
MODULE = JitModule(framework="triton", name="scale", digest="cubin", sources="s", launches=(("scale", "1,1,1/32,1,1"),))


LIVE_BASE = (0.13781, 0.13799, 0.13832, 0.13843, 0.13802, 0.13836, 0.13791, 0.13833)
LIVE_HEAD = (0.43037, 0.43006, 0.43056, 0.43046, 0.43009, 0.43045, 0.43048, 0.43029)
"""Megacycles of a Triton softmax on an H200 (2026-11-22). Head repeats its maximum 50 times. This once passed as the same code."""


def build(dependencies: tuple[tuple[str, str], ...] = VERSIONS) -> BuildEvidence:
    return make_build(entries=(), library="", launcher="", binding=repr(dependencies), dependencies=dependencies)


def recorded(now: BuildEvidence, then: BuildEvidence, origin: Any = RECORDED) -> Any:
    evidence = good_evidence(PLAN, (then,))
    return only(judged(Source(origin=origin, evidence=evidence), plan=PLAN, builds=(now,)), "finite")


def test_a_recording_of_these_sources_and_versions_counts_and_says_so() -> None:
    verdict = recorded(build(), build())
    assert verdict.outcome is Outcome.PASS
    assert any("bound to sources, lock files and framework versions" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("dependencies", "name"),
    [
        ((("file:scale.py", "other"), VERSIONS[1]), "scale.py"),
        ((VERSIONS[0], ("torch", "2.12.0")), "torch"),
        ((*VERSIONS, ("file:uv.lock", "digest")), "uv.lock"),
    ],
)
def test_what_changed_is_named(dependencies: Any, name: str) -> None:
    verdict = recorded(build(dependencies), build())
    assert verdict.reason.code is Code.STALE_EVIDENCE
    assert verdict.reason.message.endswith(f"Changed since: {name}")


@pytest.mark.parametrize("dependencies", [(), (VERSIONS[0], ("torch", "unknown"))])
def test_nothing_binds_a_recording_without_known_versions(dependencies: Any) -> None:
    assert recorded(build(dependencies), build(dependencies)).reason.code is Code.NO_EVIDENCE
    assert recorded(build(dependencies), build(dependencies), LIVE).outcome is Outcome.PASS


def test_an_unknown_version_is_named() -> None:
    unknown = build((VERSIONS[0], ("torch", "unknown")))
    assert recorded(unknown, unknown).reason.message.endswith("neither this machine nor a lock file has the version of torch")


def test_a_build_gate_judges_what_a_workload_launches() -> None:
    gate = replace(SPILLS, evidence=Kind.MACHINE_CODE)
    plan = make_plan((make_check(gate, "big"),), descriptions=PLAN.descriptions)
    for value, outcome in ((0.0, Outcome.PASS), (448.0, Outcome.FAIL)):
        evidence = good_evidence(PLAN, (build(),))
        spills = (("spills/bytes", Measured(value=value, unit="byte")),)
        seen = replace(evidence.observations[0], kind=Kind.MACHINE_CODE, target="big", readings=spills, jit=(MODULE,))
        expected = judged(plan=plan, builds=(build(),)).verdicts[0]
        assert expected.reason.code is Code.NO_EVIDENCE
        identity = replace(seen.identity, collector=_collector(plan))
        run = replace(evidence, observations=(replace(seen, identity=identity),))
        assert judged(run, plan=plan, builds=(build(),)).verdicts[0].outcome is outcome


def _collector(plan: Any) -> str:
    from flashcore_ci.model.identity import collector_digest

    return collector_digest(Kind.MACHINE_CODE, plan.protocol)


class TestComparison:
    """``no-slower`` for a kernel without machine code at build time."""

    def compared(self, samples: Any, *, modules: Any = (), same: bool = False, **base: str) -> Observation:
        observation = comparison(samples, base=BUILD)
        identity = replace(observation.identity, machine_code=NO_MACHINE_CODE, launcher="")
        readings = (("comparison/same-code", Measured(value=1.0, unit="count")),) if same else ()
        changed = {"identity": identity, "base": replace(identity, **base), "readings": readings, "jit": tuple(modules)}
        return replace(observation, **changed)

    def evaluate(self, *arguments: Any, **changes: Any) -> Any:
        return no_slower.evaluate(CHECK, self.compared(*arguments, **changes), context())

    def test_equal_code_that_was_seen_is_the_same_code(self) -> None:
        assert self.evaluate((), modules=[MODULE], same=True).reason.code is Code.SAME_CODE

    @pytest.mark.parametrize(
        "modules",
        [
            [],
            [replace(MODULE, digest="")],
            [replace(MODULE, launches=())],
            [MODULE, replace(MODULE, framework=LIBRARY)],
            [MODULE, JitModule(framework=LIBRARY, name="mine.so", digest="d", sources="")],
        ],
    )
    def test_code_that_was_not_wholly_seen_is_never_the_same(self, modules: Any) -> None:
        assert not is_complete(modules)
        assert self.evaluate((), modules=modules, same=True).outcome is Outcome.INCONCLUSIVE

    def test_other_sources_are_never_the_same(self) -> None:
        assert self.evaluate((), modules=[MODULE], same=True, subject="other").outcome is Outcome.INCONCLUSIVE

    def test_a_loop_in_the_kernel_or_around_its_launch_is_slower(self) -> None:
        base = replace(MODULE, name=f"{BASE}scale")
        for head in (replace(MODULE, digest="with a loop"), replace(MODULE, launches=MODULE.launches * 50)):
            found = self.evaluate(rounds(5.0), modules=[head, base], subject="the base's file")
            assert (found.outcome, found.reason.code) == (Outcome.FAIL, Code.SLOWER)

    def test_the_loop_that_once_passed_is_slower_by_its_live_rounds(self) -> None:
        samples = samples_of(LIVE_BASE, LIVE_HEAD, mhz=1978.0)
        found = self.evaluate(samples, subject="the base's file")
        assert (found.outcome, found.reason.code) == (Outcome.FAIL, Code.SLOWER)
        assert found.reason.message.startswith("+211.51 % in cycles after 8 rounds")

    def test_a_changed_choice_of_equal_sources_is_why_it_is_slower(self) -> None:
        found = self.evaluate(rounds(5.0), modules=self.tuned())
        assert (found.outcome, found.reason.code) == (Outcome.FAIL, Code.RETUNED)
        assert found.reason.message.startswith("scale runs with BLOCK=64, and the base's with BLOCK=128: ")
        assert found.notes[-1] == "retuned: scale runs with BLOCK=64, and the base's with BLOCK=128"

    def test_a_changed_choice_is_reported_when_it_is_not_slower(self) -> None:
        found = self.evaluate(rounds(0.0), modules=self.tuned())
        assert found.outcome is Outcome.PASS
        assert found.notes[-1].startswith("retuned: ")

    def test_other_sources_are_slower_and_the_choice_is_reported(self) -> None:
        found = self.evaluate(rounds(5.0), modules=self.tuned(), subject="other")
        assert found.reason.code is Code.SLOWER
        assert found.notes[-1].startswith("retuned: ")

    def test_the_same_choice_is_not_reported(self) -> None:
        tuned = replace(MODULE, configuration=(("BLOCK", "64"),))
        found = self.evaluate(rounds(0.0), modules=[tuned, replace(tuned, name=f"{BASE}scale")])
        assert not any("retuned" in note for note in found.notes)

    @staticmethod
    def tuned() -> list[JitModule]:
        base = replace(MODULE, name=f"{BASE}scale", configuration=(("BLOCK", "128"),))
        return [replace(MODULE, configuration=(("BLOCK", "64"),)), base]
