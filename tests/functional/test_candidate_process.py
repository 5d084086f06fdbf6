"""The process of a candidate, as the worker starts it. Without torch it ends before any code of the candidate runs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from flashcore_ci.worker import file_reads, sandbox
from flashcore_ci.worker.channel import ProtocolError
from flashcore_ci.worker.isolated_subject import IsolatedSubject
from flashcore_ci.worker.job import Job, Subject
from flashcore_ci.worker.supervisor import Candidate, NotIsolatedError

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="with torch the candidate starts")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "definition.py").write_text("def inputs(params, seed): return {}\n")
    (checkout / "candidate.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    subject = Subject(name="s", file=checkout / "definition.py", library=None, candidate=("candidate.py",))
    (tmp_path / "job.json").write_text(json.dumps({}))
    (tmp_path / "result.json").write_text(json.dumps({}))
    works = ()
    return Job(
        kind="timing", nonce="n", digest="d", root=checkout, folder=tmp_path, subjects=(subject,), workloads=works, options={}
    )


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that no other test uses now."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


def test_without_torch_it_is_not_isolated_and_runs_nothing(job: Job, tmp_path: Path) -> None:
    candidate = Candidate(job, job.subjects[0])
    try:
        with pytest.raises(NotIsolatedError, match="No module named 'torch'"):
            candidate.isolation()
    finally:
        candidate.close()
    assert not (tmp_path / "ran").exists()


def test_a_refusal_is_repeated_to_whoever_asks_again(job: Job) -> None:
    candidate = Candidate(job, job.subjects[0])
    try:
        for _ in range(2):
            with pytest.raises(NotIsolatedError, match="No module named 'torch'"):
                candidate.warm()
        candidate.await_warm()
    finally:
        candidate.close()


def test_an_end_reads_nothing_of_the_checkout(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    (job.root / "folder").mkdir()
    (job.root / "candidate.py").rename(job.root / "folder/candidate.py")
    monkeypatch.chdir(job.root)
    candidate = Candidate(job, replace(job.subjects[0], candidate=("folder/candidate.py",)))
    file_reads.watch(job.root)
    try:
        candidate.close()
        assert not [path for path in file_reads.undeclared(set(), set()) if path.is_relative_to(job.root)]
    finally:
        file_reads._watched.clear()


def test_an_end_leaves_no_process_and_no_file(job: Job, temporary: Path) -> None:
    candidate = Candidate(job, job.subjects[0])
    pid = candidate._pid
    assert [path.name.rpartition("-")[0] for path in temporary.iterdir()] == ["flashcore-ci-candidate"]
    candidate.close()
    assert list(temporary.iterdir()) == []
    assert not Path(f"/proc/{pid}").exists()


def test_an_end_removes_folders_that_are_too_deep_for_python(job: Job, temporary: Path) -> None:
    candidate = Candidate(job, job.subjects[0])
    folder = candidate._folder / "home"
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(2 * sys.getrecursionlimit()):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    candidate.close()
    assert list(temporary.iterdir()) == []


def test_an_end_that_is_not_awaited_leaves_no_file_and_nothing_that_runs(job: Job, temporary: Path) -> None:
    candidate = Candidate(job, job.subjects[0], warm="cuda")
    candidate.close(wait=False)
    assert list(temporary.iterdir()) == []
    os.waitpid(candidate._pid, 0)


SPAWNS = """
import os, sys, time
from pathlib import Path
from flashcore_ci.worker import sandbox
sandbox.enter([], Path(sys.argv[1]), user=0)
os.setpgid(0, 0)
for escape in (lambda: os.setsid(), lambda: os.setpgid(0, 0)):
    if os.fork() == 0:
        try:
            escape()
        except OSError:
            pass
        if os.fork() == 0:
            os.write(1, f"{os.getpid()}\\n".encode())  # at once: two processes write
            time.sleep(600)
        os._exit(0)
time.sleep(600)
"""


def test_what_a_candidate_started_ends_with_it_without_a_user_of_its_own(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A descendant could keep the GPU busy while the next candidate's idle bursts are timed."""
    monkeypatch.setattr(sandbox, "claim_user", lambda: (0, None))
    candidate = Candidate(job, job.subjects[0])
    assert os.getpgid(candidate._pid) == candidate._pid
    argv = [sys.executable, "-c", SPAWNS, str(job.folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, process_group=0) as other:
        assert other.stdout is not None
        pids = [other.stdout.readline().strip() for _ in range(2)]
        candidate.close()
        candidate._pid = other.pid  # as if the candidate had started them
        candidate.close()
    assert all(pids)
    assert not any(_is_alive(pid) for pid in pids)


def test_a_subject_that_is_not_isolated_has_no_candidate(job: Job) -> None:
    subject = IsolatedSubject(job, job.subjects[0], trusted=type("Trusted", (), {"outputs": None, "reference": None}))
    for _ in range(2):
        with pytest.raises((NotIsolatedError, ProtocolError)):
            subject.fresh()
        assert (subject.isolation, subject._candidate) == (None, None)
    subject.end()


def test_a_supervisor_that_dies_takes_it_along(job: Job) -> None:
    child = os.fork()
    if child == 0:
        candidate = Candidate(job, job.subjects[0])
        (job.folder / "pid").write_text(str(candidate._pid))
        os._exit(0)
    os.waitpid(child, 0)
    deadline = time.monotonic() + 60.0
    pid = (job.folder / "pid").read_text()
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_alive(pid)


def _is_alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
