"""Joining shards: the same bytes for any order, grouping and repetition, and nothing that does not belong together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evidence_factories import good_evidence, make_device, make_provenance
from factories import make_build, make_plan

from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import EvidenceError, UsageError
from flashcore_ci.model.evidence import UNVERIFIED, VERIFIED, Observation, Shard
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.shard import Needs, ShardFile, Unit
from flashcore_ci.model.suite import Kind
from flashcore_ci.plan import shards
from flashcore_ci.run import merge
from flashcore_ci.run.merge import Part
from flashcore_ci.store import shard_files
from flashcore_ci.store.codec import encode
from flashcore_ci.store.run import Run

PLAN = make_plan()
WHOLE = good_evidence(PLAN)
COUNT = 3
CUT = [units for units, _ in shards.cut(PLAN, {}, COUNT)]
PARTS_OF_CUT = tuple(map(shards.units_digest, CUT))


def shard(number: int, **changes: Any) -> Shard:
    return replace(Shard(index=number, count=COUNT, plan="f" * 64, units=CUT[number - 1], parts=PARTS_OF_CUT), **changes)


def results(units: Sequence[Unit]) -> tuple[Observation, ...]:
    return tuple(seen for seen in WHOLE.observations if Unit(kind=seen.kind, workload=seen.target) in units)


def part(index: int, **changes: Any) -> Part:
    """Return shard ``index`` of the good run, measured on a GPU of its own."""
    provenance = make_provenance(device=make_device(uuid=f"GPU-{index}"), collected_at=f"2026-11-22T08:00:0{index}Z")
    evidence = replace(
        WHOLE,
        observations=results(CUT[index - 1]),
        provenance=provenance,
        notes=(f"note {index}",),
        shard=shard(index),
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


@pytest.mark.parametrize(
    "oldest", ["2026-01-01T00:00:00Z", "20260101T000000Z", "2026-W01-4T00:00:00Z", "2026-11-22T09:00:00+02:00"]
)
def test_a_merged_run_is_as_old_as_its_oldest_part_however_that_is_written(oldest: str) -> None:
    old = replace(PARTS[2].run.evidence, provenance=replace(PARTS[2].run.evidence.provenance, collected_at=oldest))
    parts = (*PARTS[:2], replace(PARTS[2], run=replace(PARTS[2].run, evidence=old)))
    for order in itertools.permutations(parts):
        assert merge.merge(order, verified=True).evidence.provenance.collected_at == oldest


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


def test_two_splits_give_the_same_plan_and_results() -> None:
    """Times of live runs differ, so the second split has other parts."""
    seconds = {unit: float(number**2) for number, unit in enumerate(shards.units_of(PLAN), start=1)}
    other = [units for units, _ in shards.cut(PLAN, seconds, COUNT)]
    assert other != CUT
    digests = tuple(map(shards.units_digest, other))
    again = [
        part(number, observations=results(units), shard=shard(number, units=units, parts=digests))
        for number, units in enumerate(other, start=1)
    ]
    first, second = merge.merge(PARTS, verified=True), merge.merge(again, verified=True)
    assert second.plan == first.plan
    assert second.evidence.observations == first.evidence.observations
    assert second.evidence.shard.units == first.evidence.shard.units == shards.units_of(PLAN)


def test_what_nobody_signed_stays_marked() -> None:
    unsigned = Part(where="first", run=merge.merge(PARTS[:2], verified=False))
    run = merge.merge((unsigned, PARTS[2]), verified=True)
    assert run.evidence.shard == shard(1, index=UNVERIFIED, units=shards.units_of(PLAN))
    assert run.evidence.is_part
    whole = merge.merge(PARTS, verified=True).evidence
    assert whole.shard == shard(1, index=VERIFIED, units=shards.units_of(PLAN))
    assert not whole.is_part


def test_two_results_of_one_unit_both_stay() -> None:
    other = replace(PARTS[0].run.evidence.observations[0], seconds=99.0)
    twice = part(1, observations=(other,))
    run = merge.merge((*PARTS, replace(twice, where="again")), verified=True)
    assert sum((seen.kind, seen.target) == (other.kind, other.target) for seen in run.evidence.observations) == 2


DIFFERENT = {
    "commit": {"provenance": make_provenance(commit="1" * 40)},
    "dirty: False and True$": {"provenance": make_provenance(dirty=True)},
    "tools": {"provenance": make_provenance(tools=())},
    "machine class": {"provenance": make_provenance(machine_class="another")},
    "the GPU's name": {"provenance": make_provenance(device=make_device(name="NVIDIA H100"))},
    "the GPU's driver: 5[0-9.]+ and 1.0$": {"provenance": make_provenance(device=make_device(driver="1.0"))},
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
    other_cut = part(2, shard=shard(2, count=7, parts=(*PARTS_OF_CUT, *"abcd")))
    with pytest.raises(EvidenceError, match="differ in the cut into shards"):
        merge.merge((PARTS[0], other_cut), verified=True)


def test_two_contents_of_one_file_are_refused() -> None:
    twin = replace(PARTS[0], where="twin", run=replace(PARTS[0].run, files=dict.fromkeys(PARTS[0].run.files, b"[]")))
    with pytest.raises(EvidenceError, match="measured twice"):
        merge.merge((PARTS[0], twin), verified=True)


def test_nothing_is_nothing_to_merge() -> None:
    with pytest.raises(EvidenceError, match="nothing to merge"):
        merge.merge((), verified=True)


TWO = CUT[0] + CUT[1]
NEVER = Unit(kind=Kind.TIMING, workload="never")
FOREIGN = {
    "a result of another shard": part(1, observations=results(TWO)),
    "a result that no shard has": part(1, observations=(*results(CUT[0]), replace(WHOLE.observations[0], target="never"))),
    "the units of another shard": part(1, observations=results(TWO), shard=shard(1, units=TWO)),
    "the units and the digests of a cut that is none": part(
        1, shard=shard(1, units=(*CUT[0], NEVER), parts=(shards.units_digest((*CUT[0], NEVER)), *PARTS_OF_CUT[1:]))
    ),
    "a merged run with a result that its shards do not have": part(1, shard=shard(1, index=VERIFIED), observations=results(TWO)),
}


def read(part: Part, monkeypatch: pytest.MonkeyPatch) -> tuple[Part, ...]:
    monkeypatch.setattr(merge, "read_run", lambda _: part.run)
    return merge.read([Path("bundle")])


@pytest.mark.parametrize("what", FOREIGN)
def test_what_a_shard_was_not_to_measure_is_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(merge.ForeignUnitError, match="bundle: foreign-unit: ") as refused:
        read(FOREIGN[what], monkeypatch)
    assert "collect --shard" in refused.value.fix


@pytest.mark.parametrize("name", ["artifacts/shard-2/timing/process-0.json", "artifacts/timing/process-0.json", "artifacts/a"])
def test_a_file_of_another_shard_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = part(1)
    with pytest.raises(merge.ForeignUnitError, match="is not a file of its shard"):
        read(replace(one, run=replace(one.run, files={name: b"{}"})), monkeypatch)


def test_a_whole_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EvidenceError, match="a whole run"):
        read(part(1, shard=None), monkeypatch)


@pytest.mark.parametrize("verified", [True, False])
def test_parts_and_merged_parts_are_read(verified: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    merged = Part(where="merged", run=merge.merge(PARTS[:2], verified=verified))
    for one in (*PARTS, merged):
        assert read(one, monkeypatch)[0].run == one.run


def shard_file(index: int, *, parts: tuple[str, ...] = PARTS_OF_CUT) -> ShardFile:
    return ShardFile(
        suite="tiny",
        suite_file="gates/tiny.toml",
        plan="f" * 64,
        commit="1" * 40,
        index=index,
        count=COUNT,
        units=CUT[index - 1],
        parts=parts,
        needs=Needs(gpus=1, architecture="", exclusive=True, seconds=1.0),
    )


def test_each_bundle_is_of_its_own_shard_file(tmp_path: Path) -> None:
    files = shard_files.write([shard_file(1), shard_file(2)], tmp_path)
    named = [replace(one, where=f"runs/{file.stem}.tar.xz") for one, file in zip(PARTS[:2], files, strict=True)]
    merge.demand_shards(named, tmp_path)
    with pytest.raises(merge.ForeignUnitError, match="shard file 1 of 3 asks for other units"):
        merge.demand_shards([replace(PARTS[1], where=named[0].where)], tmp_path)
    with pytest.raises(EvidenceError, match="cannot be read"):
        merge.demand_shards(PARTS, tmp_path)
    for other in (shard_file(1, parts=("0" * 64, *PARTS_OF_CUT[1:])), replace(shard_file(1), units=TWO)):
        with pytest.raises(merge.ForeignUnitError):
            merge.demand_shard(PARTS[0], other)
    with pytest.raises(merge.ForeignUnitError):
        merge.demand_shard(Part(where="merged", run=merge.merge(PARTS, verified=True)), shard_file(1))


def test_a_shard_is_not_emptied_for_the_merged_run(tmp_path: Path) -> None:
    """A full disk or a kill would lose what it measured."""
    (tmp_path / "evidence.json").write_text("measured")
    with pytest.raises(UsageError, match="is what this command reads"):
        merge.write(merge.merge(PARTS, verified=False), tmp_path, [tmp_path / "other", tmp_path])
    assert (tmp_path / "evidence.json").read_text() == "measured"


def test_the_largest_group_of_equal_machines_is_kept_and_the_others_are_named() -> None:
    driver = make_provenance(device=make_device(uuid="GPU-1", driver="9.9"), collected_at="2026-11-22T08:00:01Z")
    odd = part(1, provenance=driver)
    kept, different = merge.divide([odd, *PARTS[1:]])
    assert kept == list(PARTS[1:])
    assert list(different) == [1]
    assert "differ in the GPU's driver" in different[1]
    assert merge.merge(kept, verified=True).evidence.shard.units == tuple(
        unit for unit in shards.units_of(PLAN) if unit not in CUT[0]
    )


@pytest.mark.parametrize("broken", [(1,), (2,), (1, 2)])
def test_shards_of_broken_gpus_do_not_outvote_one_that_measured(broken: tuple[int, ...]) -> None:
    """The probe failed, so nobody knows torch and the GPU's size there."""
    unhealthy = Missing(code=Code.DEVICE_UNHEALTHY, message="a known-good kernel failed")
    parts = [
        part(
            index,
            provenance=make_provenance(tools=(), device=make_device(uuid=f"GPU-{index}", multiprocessors=0)),
            observations=tuple(replace(seen, readings=(), missing=unhealthy) for seen in results(CUT[index - 1])),
        )
        for index in broken
    ]
    kept, different = merge.divide([*parts, PARTS[2]])
    assert kept == [PARTS[2]]
    assert tuple(different) == broken


def test_of_two_equal_groups_the_one_with_more_results_is_kept_or_the_first() -> None:
    odd = part(2, provenance=make_provenance(device=make_device(uuid="GPU-2", driver="9.9")), observations=results(CUT[1])[:1])
    same = part(1, observations=results(CUT[0])[:1])
    assert merge.divide([same, odd])[0] == [same]
    assert merge.divide([odd, same])[0] == [odd]
    more = part(1, observations=results(CUT[0]) * 2)
    assert merge.divide([odd, more])[0] == [more]
    assert merge.divide([]) == ([], {})
    assert merge.divide(PARTS) == (list(PARTS), {})
