"""Thousands of shards that are killed, corrupted, of another commit or greedy: none is lost or doubled, and no green is forged.

At night 10,000 shards, 500 of them real processes. In each change 40 shards and two processes.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import shard_process
from evidence_factories import good_observation, make_evidence, make_provenance
from factories import make_build, make_check, make_description, make_plan, make_workload
from judging import judged
from replayed import ROOT

from flashcore_ci.model.errors import EvidenceError, FlashcoreError
from flashcore_ci.model.evidence import VERIFIED
from flashcore_ci.model.suite import Kind
from flashcore_ci.plan.shards import units_digest
from flashcore_ci.run import merge
from flashcore_ci.run import statement as statements
from flashcore_ci.store.run import Run, prepare_run, read_run, write_run

ADDRESS = "https://github.com/flashcore/flashcore-ci/actions/runs/41"
KILLED, FLIPPED, REWRITTEN, FOREIGN, GREEDY = 0.05, 0.005, 0.005, 0.01, 0.01
BAD = 0.03
"""How many kernels are really wrong."""
OTHER_COMMIT = "2" * 40
BUILD = make_build()


@dataclass
class Fleet:
    """One cut into ``count`` shards, each of one workload."""

    folder: Path
    count: int
    numbers: random.Random
    processes: int
    truth: dict[int, float] = field(default_factory=dict)
    fates: Counter[str] = field(default_factory=Counter)
    greedy: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    template: Run | None = None

    def prepare(self) -> None:
        names = [f"w{index}" for index in range(1, self.count + 1)]
        plan = make_plan(
            tuple(make_check(target=name) for name in names),
            workloads=tuple(make_workload(name, params=(("n", len(name)),), collect=(Kind.CORRECTNESS,)) for name in names),
            descriptions=(make_description(workloads=tuple(names)),),
            excluded=(),
        )
        observations = tuple(good_observation(plan, BUILD, Kind.CORRECTNESS, name) for name in names)
        template = self.folder / "template"
        prepare_run(template, plan)
        provenance = make_provenance(commit="1" * 40)
        write_run(template, plan, make_evidence(builds=(BUILD,), observations=observations, provenance=provenance))
        self.template = read_run(template)

    def measure(self, index: int) -> Path | None:
        """Measure one shard as its fate has it, twice more if it is killed. None: it stays lost."""
        assert self.template is not None
        self.truth[index] = value = float(self.numbers.random() < BAD)
        for attempt in range(3):
            bundle = self.folder / f"shard-{index}-{attempt}.tar.xz"
            draw = self.numbers.random()
            if draw < KILLED:
                self.fates["killed"] += 1
                self._write(bundle, index, value, killed=True)
                with pytest.raises(EvidenceError):
                    merge.read([bundle])
                continue
            self._write(bundle, index, value)
            bundle.with_name(f"{bundle.name}.json").write_bytes(statements.expected(bundle, invocation=ADDRESS))
            self._corrupt(bundle, index, draw - KILLED)
            return bundle
        return None

    def _write(self, bundle: Path, index: int, value: float, *, killed: bool = False) -> None:
        assert self.template is not None
        if self.processes > 0:
            self.processes -= 1
            self.fates["process"] += 1
            program, template = shard_process.__file__, self.folder / "template"
            argv = [sys.executable, program, template, bundle, str(index), str(self.count), str(value), *["killed"] * killed]
            status = subprocess.run([*map(str, argv)], env={"PYTHONPATH": str(ROOT)}, check=False, timeout=300).returncode
            assert status == (-9 if killed else 0)
            return
        shard_process.write(self.template, bundle, index, self.count, value)
        if killed:
            bundle.write_bytes(bundle.read_bytes()[: self.numbers.randrange(bundle.stat().st_size)])

    def _corrupt(self, bundle: Path, index: int, draw: float) -> None:
        """Damage the bundle after its statement was signed. Another commit has a statement of its own."""
        assert self.template is not None
        if draw < FLIPPED:
            self.fates["flipped"] += 1
            data = bytearray(bundle.read_bytes())
            data[self.numbers.randrange(len(data))] ^= 1 << self.numbers.randrange(8)
            bundle.write_bytes(data)
        elif draw < FLIPPED + REWRITTEN:
            self.fates["rewritten"] += 1
            bundle.unlink()
            shard_process.write(self.template, bundle, index, self.count, 1.0 - self.truth[index])
        elif draw < FLIPPED + REWRITTEN + FOREIGN:
            self.fates["foreign"] += 1
            bundle.unlink()
            shard_process.write(self.template, bundle, index, self.count, 0.0, commit=OTHER_COMMIT)
            bundle.with_name(f"{bundle.name}.json").write_bytes(statements.expected(bundle, invocation=ADDRESS))
        elif draw < FLIPPED + REWRITTEN + FOREIGN + GREEDY:
            self.fates["greedy"] += 1
            bundle.unlink()
            self._grab(bundle, index)
            bundle.with_name(f"{bundle.name}.json").write_bytes(statements.expected(bundle, invocation=ADDRESS))
            self.greedy.append(bundle.name)

    def _grab(self, bundle: Path, index: int) -> None:
        """Let a shard call all workloads of this cut good: as its own, as those of a new cut, of a merge, or of the next shard."""
        assert self.template is not None
        names = tuple(f"w{number}" for number in range(1, self.count + 1))
        honest = shard_process.shard_of(self.template, index, self.count)
        units = tuple(unit for part in shard_process.cut(self.count) for unit in part)
        claims = (
            honest,
            replace(honest, units=units),
            replace(honest, index=1, count=1, units=units, parts=(units_digest(units),)),
            replace(honest, index=VERIFIED, units=units),
            shard_process.shard_of(self.template, index % self.count + 1, self.count),
        )
        claim = self.numbers.choice(claims)
        targets = names if claim is not claims[-1] else (f"w{claim.index}",)
        shard_process.write(self.template, bundle, index, self.count, 0.0, targets=targets, shard=claim)


def accepted(fleet: Fleet, bundles: list[Path]) -> list[merge.Part]:
    """Take what its statement and its shard name. `merge` refuses to join commits, so a person leaves the odd one out."""
    parts = []
    for bundle in bundles:
        try:
            statements.demand(bundle, bundle.parent / f"{bundle.name}.json", invocation=ADDRESS)
            (part,) = merge.read([bundle])
            merge.demand_shard(part, shard_process.file_of(int(bundle.name.split("-")[1]), fleet.count))
            parts.append(part)
        except FlashcoreError as error:
            fleet.refused += [bundle.name] * isinstance(error, merge.ForeignUnitError)
    foreign = [part for part in parts if part.run.evidence.provenance.commit == OTHER_COMMIT]
    own = [part for part in parts if part not in foreign]
    for part in foreign:
        with pytest.raises(EvidenceError, match="differ in commit"):
            merge.merge([own[0], part], verified=True)
    return own


def check(fleet: Fleet) -> None:
    """Every check has one verdict, its own or none, and the order of the bundles does not count."""
    assert fleet.template is not None
    found = [bundle for index in range(1, fleet.count + 1) if (bundle := fleet.measure(index)) is not None]
    parts = accepted(fleet, found)
    assert fleet.refused == fleet.greedy
    run = merge.merge([*parts, *fleet.numbers.sample(parts, len(parts) // 3)], verified=True)
    assert run.evidence == merge.merge(parts[::-1], verified=True).evidence
    assert not run.evidence.is_part
    assert Counter(one.target for one in run.evidence.observations).most_common(1)[0][1] == 1
    report = judged(replace(run.evidence, builds=(BUILD,)), plan=fleet.template.plan, builds=(BUILD,))
    measured = {one.target for one in run.evidence.observations}
    assert len(measured) == len(parts)
    for verdict in report.verdicts:
        honest = ("FAIL", "over-limit") if fleet.truth[int(verdict.target[1:])] else ("PASS", "within-limit")
        given = (verdict.outcome, verdict.reason.code)
        assert given == (honest if verdict.target in measured else ("INCONCLUSIVE", "no-evidence")), verdict.target


def simulate(folder: Path, *, fleets: int, count: int, processes: int) -> Counter[str]:
    numbers, fates = random.Random(20261122), Counter[str]()
    for number in range(fleets):
        here = folder / str(number)
        here.mkdir()
        fleet = Fleet(folder=here, count=count, numbers=numbers, processes=processes // fleets)
        fleet.prepare()
        check(fleet)
        fates += fleet.fates
    return fates


def test_sixty_shards(tmp_path: Path) -> None:
    assert simulate(tmp_path, fleets=1, count=60, processes=2)["killed"] > 0


@pytest.mark.nightly
def test_ten_thousand_shards(tmp_path: Path) -> None:
    fates = simulate(tmp_path, fleets=100, count=100, processes=500)
    assert fates["process"] == 500
    assert all(fates[fate] > 0 for fate in ("killed", "flipped", "rewritten", "foreign", "greedy"))
