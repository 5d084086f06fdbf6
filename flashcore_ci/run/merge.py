"""Join the bundles of shards into one run: the same bytes for any order, grouping and repetition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from flashcore_ci.judge.provenance import moment_of
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import UNVERIFIED, VERIFIED, Evidence, Observation, Provenance, Shard
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.shard import ShardFile, Unit
from flashcore_ci.model.suite import Kind
from flashcore_ci.plan.shards import units_digest
from flashcore_ci.store import shard_files
from flashcore_ci.store.claim import claim_folder, refuse_input
from flashcore_ci.store.manifest import ARTIFACTS
from flashcore_ci.store.run import Run, prepare_run, read_run, write_run

FIX = "measure the shards of one cut, on one commit, with one machine class, and with the binaries of one build"
BETWEEN = ","
"""Between the UUIDs of GPUs."""
T = TypeVar("T", Observation, Unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A bundle of a shard, or of shards that were merged."""

    where: str
    run: Run

    @property
    def shard(self) -> Shard:
        """What it may hold. EvidenceError for a whole run."""
        if self.run.evidence.shard is None:
            raise EvidenceError(
                f"{self.where}: it is a whole run, and not of a shard", fix="judge it alone, and merge the others"
            )
        return self.run.evidence.shard


class ForeignUnitError(EvidenceError):
    """A bundle holds what its shard was not to measure."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {Code.FOREIGN_UNIT}: {what}", fix=NEXT_STEP[Code.FOREIGN_UNIT])


def read(bundles: Iterable[Path]) -> tuple[Part, ...]:
    """Read bundles, as ``check``. EvidenceError lists every one that is refused."""
    found = tuple(map(_read, bundles))  # threads would compete for the interpreter, and need a quarter more CPU time
    if problems := [one for one in found if isinstance(one, EvidenceError)]:
        if len(problems) == 1 and isinstance(problems[0], ForeignUnitError):
            raise problems[0]
        raise EvidenceError(
            "\n".join(map(str, problems)), fix="give whole bundles, or leave these out: their checks are then inconclusive"
        )
    return tuple(one for one in found if isinstance(one, Part))


def _read(bundle: Path) -> Part | EvidenceError:
    try:
        return check(Part(where=str(bundle), run=read_run(bundle)))
    except EvidenceError as error:
        return error


def check(part: Part) -> Part:
    """Return the part. EvidenceError if it holds what its shard was not to measure."""
    if part.run.is_v1:
        raise EvidenceError(f"{part.where}: its evidence is of the first schema, which knows no shards", fix=FIX)
    if part.shard.plan != part.run.plan_digest:
        raise EvidenceError(f"{part.where}: it is of another plan than its shard says", fix=FIX)
    if foreign := _find_foreign(part):
        raise ForeignUnitError(part.where, foreign)
    return part


def _find_foreign(part: Part) -> str:
    """Name what a bundle holds, and its shard does not."""
    shard, run = part.shard, part.run
    is_merged = shard.index in {VERIFIED, UNVERIFIED}
    if not is_merged and units_digest(shard.units) != shard.parts[shard.index - 1]:
        return f"its units are not those of shard {shard.index} of the cut"
    planned = {(kind, workload.id) for workload in run.plan.workloads for kind in workload.collect}
    units = {(unit.kind, unit.workload) for unit in shard.units}
    for kind, target in (*(units - planned), *((one.kind, one.target) for one in run.evidence.observations)):
        if (kind, target) not in units & planned:
            where = "its plan" if (kind, target) not in planned else "its shards" if is_merged else f"shard {shard.index}"
            return f"{where} does not ask for {kind} of {target[:80]}"
    folders = {f"{ARTIFACTS}/shard-{number}" for number in (range(1, shard.count + 1) if is_merged else (shard.index,))}
    other = (name for name in run.files if "/".join(name.split("/")[:2]) not in folders)
    return next((f"{name[:80]} is not a file of its shard" for name in other), "")


def demand_shard(part: Part, file: ShardFile) -> None:
    """Raise ForeignUnitError unless ``part`` is of this shard."""
    if (part.shard.index, part.shard.units, part.shard.parts) != (file.index, file.units, file.parts):
        raise ForeignUnitError(part.where, f"shard file {file.index} of {file.count} asks for other units")


def demand_shards(parts: Iterable[Part], folder: Path) -> None:
    """Demand the shard file of each bundle, ``NAME.json`` in ``folder``, as ``demand_shard``."""
    for part in parts:
        demand_shard(part, shard_files.read(folder / f"{Path(part.where).name.removesuffix('.tar.xz')}.json"))


def merge(parts: Sequence[Part], *, verified: bool) -> Run:
    """Join parts of one plan. ``verified``: each is of this live run, or has a signed statement.

    EvidenceError if they differ in plan, commit, tools, machine class or build, or hold two contents of one file.
    """
    if not parts:
        raise EvidenceError("there is nothing to merge", fix="give at least one bundle")
    joined = _join(sorted(parts, key=lambda part: part.where))
    evidence, plan = joined.evidence, joined.plan
    verified = verified and all(part.shard.index != UNVERIFIED for part in parts)
    shard = replace(
        parts[0].shard,
        index=VERIFIED if verified else UNVERIFIED,
        units=_in_order({unit for part in parts for unit in part.shard.units}, plan),
    )
    evidence = replace(evidence, observations=_in_order(evidence.observations, plan), shard=shard)
    return replace(joined, evidence=evidence, files=dict(sorted(joined.files.items())))


def divide(parts: Iterable[Part]) -> tuple[list[Part], dict[int, str]]:
    """Return the largest group that ``merge`` would join, and for the index of each other shard why it is left out.

    A shard that measured nothing, as on a broken GPU, counts for no group. Of groups of equal size it is the one with more results,
    or the first.
    """
    groups: list[list[Part]] = []
    for part in parts:
        same = next((group for group in groups if not _find_difference(group[0], part)), None)
        if same is None:
            groups.append(same := [])
        same.append(part)
    kept = max(groups, key=_weigh, default=[])
    return kept, {part.shard.index: _find_difference(kept[0], part) for group in groups if group is not kept for part in group}


def _weigh(group: Iterable[Part]) -> tuple[int, int]:
    measured = [sum(seen.missing is None for seen in part.run.evidence.observations) for part in group]
    return sum(map(bool, measured)), sum(measured)


def _find_difference(left: Part, right: Part) -> str:
    try:
        _refuse_different(left, right)
    except EvidenceError as error:
        return str(error).splitlines()[0]
    return ""


def write(run: Run, out: Path, bundles: Iterable[Path]) -> None:
    """Write the merged run to ``out``, which no other gate may use meanwhile. UsageError if it is one of ``bundles``."""
    refuse_input(out, *bundles)
    with claim_folder(out):
        prepare_run(out, run.plan)
        put_files(run, out)
        write_run(out, run.plan, run.evidence)


def put_files(run: Run, out: Path) -> None:
    """Write the tools' files into a prepared run folder."""
    for name, data in run.files.items():
        file = out / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def _join(parts: Sequence[Part]) -> Run:
    """Join all at once: each is compared with the first, so the time is linear."""
    first, every = parts[0], [part.run.evidence for part in parts]
    for part in parts[1:]:
        _refuse_different(first, part)
    evidence = Evidence(
        provenance=_join_provenance([one.provenance for one in every]),
        builds=every[0].builds,
        observations=tuple(dict.fromkeys(seen for one in every for seen in one.observations)),
        notes=_union(one.notes for one in every),
        attempts=_union(one.attempts for one in every),
    )
    return replace(first.run, evidence=evidence, files=_join_files(parts))


def _refuse_different(left: Part, right: Part) -> None:
    if right.run.plan_digest != left.run.plan_digest:
        raise _differ(left, right, "the plan")
    _refuse_other_cut(left, right)
    if right.run.evidence.builds != left.run.evidence.builds:
        raise _differ(left, right, "the build")
    _refuse_other_provenance(left, right)


def _refuse_other_cut(left: Part, right: Part) -> None:
    if right.shard.parts != left.shard.parts:
        raise _differ(left, right, "the cut into shards")


def _refuse_other_provenance(left: Part, right: Part) -> None:
    ours, theirs = left.run.evidence.provenance, right.run.evidence.provenance
    _refuse_other(left, right, "", ours, theirs, ignored={"collected_at", "device"})
    if ours.device is None or theirs.device is None:
        raise _differ(left, right, "the GPU")
    _refuse_other(left, right, "the GPU's ", ours.device, theirs.device, ignored={"uuid", "memory"})


def _refuse_other(left: Part, right: Part, owner: str, ours: Any, theirs: Any, *, ignored: set[str]) -> None:
    for name in (field.name for field in fields(ours) if field.name not in ignored):
        if (value := getattr(ours, name)) != (other := getattr(theirs, name)):
            raise _differ(left, right, f"{owner}{name.replace('_', ' ')}: {value!s:.200} and {other!s:.200}")


def _join_provenance(every: Sequence[Provenance]) -> Provenance:
    """Keep the earliest day, and every GPU's UUID."""
    devices = [one.device for one in every if one.device is not None]
    if not devices:
        return every[0]
    uuids = {uuid for device in devices for uuid in device.uuid.split(BETWEEN)}
    device = replace(devices[0], uuid=BETWEEN.join(sorted(uuids)), memory=min(device.memory for device in devices))
    oldest = min((moment_of(one.collected_at), one.collected_at) for one in every)[1]
    return replace(every[0], collected_at=oldest, device=device)


def _join_files(parts: Sequence[Part]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    owners: dict[str, str] = {}
    for part in parts:
        for name, data in part.run.files.items():
            if found.setdefault(name, data) != data:
                message = f"{part.where} and {owners[name]} hold two contents of {name}: the shard was measured twice"
                raise EvidenceError(message, fix="give one of them")
            owners.setdefault(name, part.where)
    return found


def _union(every: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(sorted(dict.fromkeys(item for items in every for item in items), key=repr))


def _in_order(found: Iterable[T], plan: Plan) -> tuple[T, ...]:
    """Sort as the plan does. Two results of one unit stay, and contradict each other in the verdict."""
    place = {workload.id: number for number, workload in enumerate(plan.workloads)}
    kinds = list(Kind)

    def key(one: T) -> tuple[int, int, str]:
        name = one.target if isinstance(one, Observation) else one.workload
        return kinds.index(one.kind), place[name], repr(one)

    return tuple(sorted(found, key=key))


def _differ(left: Part, right: Part, what: str) -> EvidenceError:
    return EvidenceError(f"{left.where} and {right.where} differ in {what}", fix=FIX)
