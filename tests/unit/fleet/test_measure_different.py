"""What a fleet keeps if the machines of two shards differ."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from evidence_factories import make_evidence, make_provenance
from factories import make_build, make_plan

from flashcore_ci.fleet import measure
from flashcore_ci.fleet.measure import Fleet
from flashcore_ci.model.evidence import Attempt
from flashcore_ci.run.merge import Part
from flashcore_ci.store.run import Run

WHY = "run-1 and run-2 differ in the GPU's driver"


def make_part(*, dirty: bool = False) -> Part:
    evidence = make_evidence(provenance=make_provenance(dirty=dirty))
    return Part(where="run", run=Run(plan=make_plan(), plan_digest="f" * 64, evidence=evidence))


def make_fleet(parts: list[Part], **changes: Any) -> Fleet:
    engine: Any = SimpleNamespace(verified=True)
    return Fleet(engine=engine, progress=lambda _: None, home=Path("home"), done=parts, **changes)


def test_the_different_shard_is_lost_and_its_attempt_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [make_part(), make_part()]
    fleet = make_fleet([*parts], attempts=[Attempt(number=1, gpu="a", shard_index=index) for index in (1, 2)])
    monkeypatch.setattr(measure.merge, "divide", lambda found: (found[:1], {2: WHY}))
    fleet.leave_out_different()
    assert (fleet.done, fleet.notes) == (parts[:1], [f"shard 2 is lost: {WHY}"])
    assert [(one.shard_index, one.reason) for one in fleet.attempts] == [(1, ""), (2, WHY)]


@pytest.mark.parametrize("dirty", [True, False])
def test_changes_that_only_a_lost_shard_saw_count_for_the_run(dirty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have been undone before the others were done, which may have read them too."""
    fleet = make_fleet([make_part(), make_part(dirty=dirty)])
    monkeypatch.setattr(measure.merge, "divide", lambda found: (found[:1], {2: "differ in dirty"} if dirty else {}))
    fleet.leave_out_different()
    joined = measure._joined(fleet, fleet.done[0].run, make_plan(), (make_build(),), make_provenance())
    assert joined.provenance.dirty == dirty


def test_a_commit_that_was_made_meanwhile_was_not_measured() -> None:
    run = Run(plan=make_plan(), evidence=make_evidence(provenance=make_provenance()))
    fleet = make_fleet([])
    evidence = measure._joined(fleet, run, run.plan, (), make_provenance(commit="2" * 40))
    assert (evidence.provenance.commit, evidence.provenance.dirty) == (run.evidence.provenance.commit, True)


@pytest.mark.parametrize(("there", "here"), [(True, False), (False, True), (False, False)])
def test_a_change_that_only_a_shard_saw_still_counts(there: bool, here: bool) -> None:
    run = Run(plan=make_plan(), evidence=make_evidence(provenance=make_provenance(dirty=there)))
    fleet = make_fleet([])
    evidence = measure._joined(fleet, run, run.plan, (), make_provenance(dirty=here))
    assert evidence.provenance.dirty is (there or here)
