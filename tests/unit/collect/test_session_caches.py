"""Where a process's frameworks keep what they compile, and how many cores it gets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evidence_factories import make_provenance
from factories import make_build, make_description, make_plan

from flashcore_ci.adapters import host
from flashcore_ci.collect.profile import Profiler
from flashcore_ci.collect.session import Session
from flashcore_ci.model.jit import CACHE_VARIABLES
from flashcore_ci.model.suite import Trust

DEPENDENCIES = (("file:kernel/subjects/scale.py", "d"), ("file:helper.py", "d"), ("triton", "3.6.0"))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    plan = make_plan(descriptions=(make_description(build=None),))
    folders = dict.fromkeys(("root", "libraries", "run_folder", "scratch", "lock_dir"), tmp_path)
    return Session(
        plan=plan, builds=(make_build(entries=(), dependencies=DEPENDENCIES),), uuid="GPU-1", python=Path("python"),
        origin=make_provenance, sanitizer=None, ncu=None, **folders,
    )  # fmt: skip


def caches(session: Session, kind: str) -> set[str]:
    job = session.job(kind, kind, session.plan.workloads[:1], seconds=1.0)
    assert CACHE_VARIABLES.keys() <= job.variables.keys()
    assert all(job.variables[name].startswith(job.options["caches"]) for name in CACHE_VARIABLES)
    return {job.variables[name] for name in CACHE_VARIABLES}


def test_no_cache_of_the_user_is_used_or_read(session: Session) -> None:
    assert all(Path(folder).is_relative_to(session.scratch) for folder in caches(session, "correctness"))


def test_what_is_timed_was_not_tuned_next_to_other_processes(session: Session) -> None:
    assert not caches(session, "timing") & caches(session, "correctness")
    assert caches(session, "timing") == caches(session, "timing")


def test_machine_code_is_of_one_process(session: Session) -> None:
    assert not caches(session, "machine_code") & caches(session, "machine_code")


def test_a_worker_knows_the_libraries_of_all_subjects(session: Session, tmp_path: Path) -> None:
    built = (make_build(), make_build(subject="decode", library="decode/lib.so"), make_build(subject="broken", library=""))
    options = replace(session, builds=built).job("timing", "t", session.plan.workloads[:1], seconds=1.0).options
    assert options["libraries"] == {"scale": str(tmp_path / built[0].library), "decode": str(tmp_path / "decode/lib.so")}


def test_each_side_has_its_own(session: Session, tmp_path: Path) -> None:
    assert not caches(session, "timing") & caches(replace(session, root=tmp_path / "base"), "timing")


@pytest.mark.parametrize("changes", [{}, {"build": None, "trust": Trust.NONE, "candidate": ("kernel.py",)}])
def test_code_from_the_build_and_candidates_have_none(session: Session, changes: Any) -> None:
    plan = replace(session.plan, descriptions=(make_description(**changes),))
    job = replace(session, plan=plan).job("timing", "timing", plan.workloads[:1], seconds=1.0)
    assert job.variables == {"CUDA_VISIBLE_DEVICES": "GPU-1"}


def test_the_files_under_digests_are_the_sources_that_it_names(session: Session) -> None:
    options = session.job("timing", "timing", session.plan.workloads[:1], seconds=1.0).options
    assert options["python"] == ["kernel/subjects/scale.py", "helper.py"]
    assert options["exact"]
    assert (
        replace(session, builds=(make_build(),)).job("timing", "t", session.plan.workloads[:1], seconds=1.0).options["python"]
        is None
    )


@pytest.mark.parametrize(("neighbours", "candidate", "own"), [(None, (), False), ((), (), True), ((), ("kernel.py",), False)])
def test_gpus_of_a_fleet_are_profiled_at_once(session: Session, neighbours: Any, candidate: tuple[str, ...], own: bool) -> None:
    trust = Trust.NONE if candidate else Trust.FULL
    plan = replace(session.plan, descriptions=(make_description(trust=trust, candidate=candidate),))
    fleet = replace(session, plan=plan, neighbours=neighbours, ncu=Path("ncu"))
    variables = Profiler(fleet).make_job(plan.workloads[:1]).variables
    assert ("TMPDIR" in variables) is own
    assert not own or Path(variables["TMPDIR"]).is_dir()


@pytest.mark.parametrize(
    ("cpus", "gpus", "kind", "cores"), [(32, 2, "timing", 16), (16, 1, "timing", 16), (16, 0, "launch", 2), (4, 8, "timing", 1)]
)
def test_a_job_gets_its_gpus_share_of_the_cores(
    session: Session, monkeypatch: pytest.MonkeyPatch, cpus: int, gpus: int, kind: str, cores: int
) -> None:
    monkeypatch.setattr(host, "cpus", lambda: cpus)
    monkeypatch.setattr(host, "gpus", lambda: gpus)
    assert session.job(kind, kind, session.plan.workloads[:1], seconds=1.0).options["cores"] == cores
    assert session.job(kind, kind, (), seconds=1.0, options={"cores": 3}).options["cores"] == 3
