"""A new baseline after an update of the driver, without a GPU: what it measures, and at which commit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from evidence_factories import good_observation, make_evidence, make_provenance
from factories import make_build, make_plan, make_suite
from sound_gpu import SOUND

from flashcore_ci.adapters import git, nvml
from flashcore_ci.model.baseline import Baseline, BaselineRow
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.options import DEFAULTS, CompileOptions
from flashcore_ci.model.reading import Samples
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import baseline, references
from flashcore_ci.run.request import Request
from flashcore_ci.store import record_files

FORMER = CompileOptions(architectures=("sm_90a",), fast_math=True)


def row(workload: str, commit: str, day: int = 1) -> BaselineRow:
    times = {"ms": (1.0, 1.1), "megacycles": (1.7, 1.8)}
    return BaselineRow(
        workload=workload, collected_at=f"2026-11-0{day}T00:00:00Z", commit=commit, asked="a", collector="c", **times
    )


def written(folder: Path, *rows: BaselineRow, driver: str = "570.86") -> Baseline:
    made = Baseline(device="NVIDIA H200", driver=driver, clock_policy="not locked", rows=rows)
    record_files.write(made, folder / f"gates/baselines/{driver}.json")
    return made


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[object]]:
    """A machine with another driver. ``asked`` has what was measured, ``timed`` the workloads that give a time."""
    known: dict[str, list[object]] = {"asked": [], "timed": ["big", "small"]}

    def collect(request: Request, progress: object, suite: object) -> object:
        known["asked"].append((request.commit, request.only, request.kinds, request.checkout, suite.build))
        samples = (
            ("time/gpu/cold", Samples(values=(2.0, 2.2), unit="ms")),
            ("cycles/gpu/cold", Samples(values=(3.4, 3.6), unit="Mcycle")),
        )
        plan = make_plan()
        seen = [good_observation(plan, make_build(), Kind.TIMING, "big", samples=samples)]
        found = tuple(replace(seen[0], target=name) for name in request.only if name in known["timed"])
        return make_evidence(observations=found, provenance=make_provenance(commit=request.commit))

    monkeypatch.setattr(nvml, "read", lambda gpu: SOUND)
    monkeypatch.setattr(baseline, "collect_run", collect)
    monkeypatch.setattr(git, "commit_of", lambda root, revision, logs: revision)
    monkeypatch.setattr(baseline, "check_out", lambda commit, request, logs: tmp_path / "bases" / commit)
    suites = {False: make_suite(build=FORMER), True: make_suite(build=DEFAULTS)}
    monkeypatch.setattr(baseline, "load_suite", lambda request: suites["bases" in str(request.root)])
    monkeypatch.chdir(tmp_path)
    return known


def renew(folder: Path) -> baseline.Proposal:
    request = Request(suite=Path("gates/hopper.toml"), out=folder / "runs", environ={})
    return baseline.renew(request, lambda _: None)


def test_each_row_is_measured_at_its_own_commit(tmp_path: Path, machine: dict[str, list[object]]) -> None:
    written(tmp_path, row("big", "a" * 40), row("small", "b" * 40))
    proposal = renew(tmp_path)
    assert machine["asked"] == [
        (commit, (name,), (Kind.TIMING,), tmp_path / "bases" / commit, FORMER)
        for commit, name in (("a" * 40, "big"), ("b" * 40, "small"))
    ]
    made = record_files.read(Baseline, proposal.file)
    assert (made.driver, proposal.file.name) == ("580.159.04", "nvidia-h200-580.159.04-not-locked.json")
    assert [(each.workload, each.commit[0]) for each in made.rows] == [("big", "a"), ("small", "b")]
    assert "+100.00 % in time" in proposal.changes[0]


def test_the_latest_baseline_of_the_product_counts(tmp_path: Path, machine: dict[str, list[object]]) -> None:
    written(tmp_path, row("big", "a" * 40), driver="560.1")
    written(tmp_path, row("big", "b" * 40, day=2), driver="570.86")
    renew(tmp_path)
    assert [asked[0] for asked in machine["asked"]] == ["b" * 40]


def test_a_row_that_was_not_timed_is_an_error_and_nothing_is_written(tmp_path: Path, machine: dict[str, list[object]]) -> None:
    written(tmp_path, row("big", "a" * 40), row("small", "a" * 40))
    machine["timed"] = ["big"]
    with pytest.raises(EvidenceError, match="not timed: small"):
        renew(tmp_path)
    assert len(references.baselines(tmp_path / "gates/baselines")) == 1


def test_without_a_baseline_of_this_product_there_is_nothing_to_renew(tmp_path: Path, machine: dict[str, list[object]]) -> None:
    with pytest.raises(EvidenceError, match="has no baseline of NVIDIA H200") as caught:
        renew(tmp_path)
    assert "baseline propose" in caught.value.fix


def test_a_baseline_of_other_clocks_is_not_overwritten(tmp_path: Path) -> None:
    """Both names are the text before the semicolon."""
    first, second = (
        Baseline(device="NVIDIA H200", driver="1", clock_policy=f"locked; by {who}", rows=(row("big", "a" * 40),)) for who in "ab"
    )
    record_files.write(first, references.file_of(first, tmp_path))
    assert references.file_of(first, tmp_path).exists()
    with pytest.raises(EvidenceError, match=r"nvidia-h200-1-locked.json is for another machine"):
        references.file_of(second, tmp_path)
