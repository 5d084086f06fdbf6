"""Joining shards: the same bytes for any order, grouping and repetition, and nothing that does not belong together."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from evidence_factories import good_evidence, make_device, make_provenance
from factories import make_build, make_plan

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import Shard
from flashcore_ci.plan import shards
from flashcore_ci.run import merge
from flashcore_ci.run.merge import Part
from flashcore_ci.store.codec import encode
from flashcore_ci.store.run import Run

PLAN = make_plan()
WHOLE = good_evidence(PLAN)
COUNT = 3


def part(index: int, **changes: Any) -> Part:
    """Return shard ``index`` of the good run, measured on a GPU of its own."""
    units = {(unit.kind, unit.workload) for unit in shards.cut(PLAN, {}, COUNT)[index - 1][0]}
    observations = tuple(seen for seen in WHOLE.observations if (seen.kind, seen.target) in units)
    provenance = make_provenance(device=make_device(uuid=f"GPU-{index}"), collected_at=f"2026-11-22T08:00:0{index}Z")
    evidence = replace(
        WHOLE,
        observations=observations,
        provenance=provenance,
        notes=(f"note {index}",),
        shard=Shard(index=index, count=COUNT, plan="f" * 64),
    )
    files = {f"artifacts/shard-{index}/timing/process-0.json": b"{}"}
    run = Run(plan=PLAN, plan_digest="f" * 64, evidence=replace(evidence, **changes), files=files)
    return Part(where=f"s{index}.tar.xz", run=run)


PARTS = tuple(part(index) for index in range(1, COUNT + 1))


def bytes_of(run: Run) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    return encode(run.evidence), tuple(run.files.items())


@pytest.mark.parametrize("verified", [True, False])
def test_order_and_repetition_do_not_count(verified: bool) -> None:
    expected = bytes_of(merge.merge(PARTS, verified=verified))
    for order in itertools.permutations(PARTS):
        assert bytes_of(merge.merge((*order, order[0]), verified=verified)) == expected


@pytest.mark.parametrize("verified", [True, False])
def test_grouping_does_not_count(verified: bool) -> None:
    one, two, three = PARTS
    first = Part(where="first", run=merge.merge((one, two), verified=verified))
    last = Part(where="last", run=merge.merge((two, three), verified=verified))
    expected = bytes_of(merge.merge(PARTS, verified=verified))
    assert bytes_of(merge.merge((first, three), verified=verified)) == expected
    assert bytes_of(merge.merge((one, last), verified=verified)) == expected


def test_all_that_was_measured_is_there_once_in_the_plans_order() -> None:
    run = merge.merge(PARTS, verified=True)
    measured = [
        seen for seen in WHOLE.observations if (seen.kind, seen.target) in {(u.kind, u.workload) for u in shards.units_of(PLAN)}
    ]
    assert sorted(run.evidence.observations, key=repr) == sorted(measured, key=repr)
    assert run.evidence.provenance.device == make_device(uuid="GPU-1,GPU-2,GPU-3")
    assert run.evidence.provenance.collected_at == "2026-11-22T08:00:01Z"
    assert set(run.files) == {f"artifacts/shard-{index}/timing/process-0.json" for index in range(1, COUNT + 1)}


def test_what_nobody_signed_stays_marked() -> None:
    unsigned = Part(where="first", run=merge.merge(PARTS[:2], verified=False))
    run = merge.merge((unsigned, PARTS[2]), verified=True)
    assert run.evidence.shard == Shard(index=merge.UNVERIFIED, count=COUNT, plan="f" * 64)
    assert merge.merge(PARTS, verified=True).evidence.shard is None


def test_two_results_of_one_unit_both_stay() -> None:
    other = replace(PARTS[0].run.evidence.observations[0], seconds=99.0)
    twice = part(1, observations=(other,))
    run = merge.merge((*PARTS, replace(twice, where="again")), verified=True)
    assert sum((seen.kind, seen.target) == (other.kind, other.target) for seen in run.evidence.observations) == 2


DIFFERENT = {
    "commit": {"provenance": make_provenance(commit="1" * 40)},
    "dirty": {"provenance": make_provenance(dirty=True)},
    "tools": {"provenance": make_provenance(tools=())},
    "machine class": {"provenance": make_provenance(machine_class="another")},
    "the GPU's name": {"provenance": make_provenance(device=make_device(name="NVIDIA H100"))},
    "the GPU's driver": {"provenance": make_provenance(device=make_device(driver="1.0"))},
    "the GPU": {"provenance": make_provenance(device=None)},
    "the build": {"builds": (make_build(library_digest="0" * 64),)},
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_differs_is_not_joined(what: str) -> None:
    stranger = part(2, **DIFFERENT[what])
    with pytest.raises(EvidenceError, match=f"differ in {what}"):
        merge.merge((PARTS[0], stranger), verified=True)


def test_another_plan_or_cut_is_not_joined() -> None:
    other_plan = replace(PARTS[1], run=replace(PARTS[1].run, plan_digest="0" * 64))
    with pytest.raises(EvidenceError, match="differ in the plan"):
        merge.merge((PARTS[0], other_plan), verified=True)
    other_cut = part(2, shard=Shard(index=2, count=7, plan="f" * 64))
    with pytest.raises(EvidenceError, match="cuts into 3 and 7 shards"):
        merge.merge((PARTS[0], other_cut), verified=True)


def test_two_contents_of_one_file_are_refused() -> None:
    twin = replace(PARTS[0], where="twin", run=replace(PARTS[0].run, files=dict.fromkeys(PARTS[0].run.files, b"[]")))
    with pytest.raises(EvidenceError, match="measured twice"):
        merge.merge((PARTS[0], twin), verified=True)


def test_nothing_is_nothing_to_merge() -> None:
    with pytest.raises(EvidenceError, match="nothing to merge"):
        merge.merge((), verified=True)
