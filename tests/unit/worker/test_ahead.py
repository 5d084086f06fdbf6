"""CUDA contexts that are made before the start signal, and what comes with it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.collect import start_signal
from flashcore_ci.collect.start_signal import StartSignal
from flashcore_ci.worker import __main__ as program
from flashcore_ci.worker import ahead, guard, profile
from flashcore_ci.worker.job import Job, Result, Subject

MakeJob = Callable[..., Job]


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    def make(**options: Any) -> Job:
        fields = {"kind": "timing", "nonce": "n", "digest": "d", "root": tmp_path, "folder": tmp_path, "subjects": ()}
        return Job(**fields, workloads=(), options=options)  # type: ignore[arg-type]

    return make


def test_the_gate_sees_contexts_being_made(make_job: MakeJob, tmp_path: Path) -> None:
    signal = StartSignal(tmp_path / "go")
    job = make_job(go=str(signal.file), ahead=True)
    assert not signal.is_making()
    assert ahead.begin(job)
    signal.hold()
    assert signal.is_making()
    ahead.end(job)
    assert not signal.is_making()


def test_none_is_begun_once_something_is_measured(make_job: MakeJob, tmp_path: Path) -> None:
    signal = StartSignal(tmp_path / "go")
    signal.hold()
    assert not ahead.begin(make_job(go=str(signal.file), ahead=True))
    assert not signal.is_making()


@pytest.mark.parametrize("options", [{"go": "/absent/go"}, {"ahead": True}, {}], ids=str)
def test_none_is_made_unless_the_job_says_so_and_waits(make_job: MakeJob, options: dict[str, Any]) -> None:
    assert not ahead.begin(make_job(**options))


def test_a_process_measures_after_the_one_before_has_ended(
    make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal, waited = StartSignal(tmp_path / "go"), []
    monkeypatch.setattr(guard, "wait_for", waited.append)
    monkeypatch.setattr(start_signal.clock, "monotonic", lambda: 0.0)
    ahead.wait_until_alone(make_job())  # without a signal no process measures before
    ahead.wait_until_alone(make_job(go=str(signal.file)))
    signal.release(1.0)
    assert [path.exists() for path in waited] == [True]


def test_its_time_counts_from_when_it_may_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is slow to end takes nothing from the next one's time."""
    now = [0.0]
    monkeypatch.setattr(start_signal.clock, "monotonic", lambda: now[0])
    signal = StartSignal(tmp_path / "go")
    signal.send(5.0)
    now[0] = 4.0
    signal.release(5.0)
    now[0] = 8.0
    assert not signal.expired()
    now[0] = 9.5
    assert signal.expired()


def test_hints_come_with_the_signal(make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_signal.clock, "monotonic", lambda: 0.0)
    signal, hints = StartSignal(tmp_path / "go"), {"w": {"sets": 24, "batched": False}}
    signal.send(1.0, hints)
    assert ahead.hints(make_job(go=str(signal.file))) == hints
    signal.file.write_bytes(b"")
    assert ahead.hints(make_job(go=str(signal.file))) == ahead.hints(make_job()) == {}


@pytest.mark.parametrize(
    ("kind", "candidate", "leaves"),
    [("probe", None, True), ("timing", ("c.py",), True), ("timing", (), False), ("launch", ("c.py",), False)],
)
def test_only_a_process_without_foreign_code_leaves_early(
    make_job: MakeJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, candidate: tuple[str, ...] | None, leaves: bool
) -> None:
    subject = Subject(name="s", file=tmp_path / "s.py", library=None, candidate=candidate or ())
    job = make_job()
    object.__setattr__(job, "kind", kind)
    object.__setattr__(job, "subjects", () if candidate is None else (subject,))
    monkeypatch.setattr(program.Job, "read", lambda path: job)
    monkeypatch.setattr(program.file_reads, "ignore_bytecode", lambda root: None)
    monkeypatch.setattr(program.foreign_files, "redirect", lambda job: None)
    monkeypatch.setattr(program.importlib, "import_module", lambda name: program)
    monkeypatch.setattr(program, "run", lambda job, result: True, raising=False)
    left: list[int] = []
    assert program.main(["job.json", str(tmp_path / "result.json")], left.append) == 0
    assert left == [0] * leaves
    assert '"finished":true' in (tmp_path / "result.json").read_text()


@pytest.mark.parametrize("candidate", [(), ("k.py",)], ids=["trusted", "candidate"])
def test_ncus_context_is_made_before_the_signal_if_all_is_trusted(
    make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, candidate: tuple[str, ...]
) -> None:
    events: list[str] = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.setattr(profile, "Driver", lambda: events.append("context") or object())
    monkeypatch.setattr(profile.guard, "begin", lambda job, result: events.append("signal"))
    monkeypatch.setattr(profile.guard, "run_each", lambda *_: True)
    job = replace(make_job(), subjects=(Subject(name="s", file=tmp_path / "s.py", library=None, candidate=candidate),))
    assert profile.run(job, Result(job, tmp_path / "result.json"))
    assert events == (["signal", "context"] if candidate else ["context", "signal"])


@pytest.mark.parametrize(("stays", "left", "missing", "words"), [
    (True, 0.01, False, ["done", "stays"]),
    (True, 0.3, False, ["done"]),
    (False, 0.01, False, ["done"]),
    (True, 0.01, True, []),
])  # fmt: skip
def test_a_process_that_may_stay_waits_for_the_last_one(
    make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stays: bool, left: float, missing: bool, words: list[str]
) -> None:
    """Not one that keeps much memory, or that failed."""
    waited: list[Path] = []
    monkeypatch.setattr(guard, "wait_for", waited.append)
    monkeypatch.setattr(ahead, "_return_memory", lambda: left)
    job = make_job(go=str(tmp_path / "go"), stays=stays)
    result = Result(job, tmp_path / "result.json")
    result.finish("a", {"missing": {}} if missing else {"ms": 1.0})
    ahead.say_done(job, result)
    assert sorted(path.suffix[1:] for path in tmp_path.glob("go.*")) == words
    assert waited == ([tmp_path / "go.end"] if "stays" in words else [])


def test_the_gate_learns_what_was_launched_in_graphs(make_job: MakeJob, tmp_path: Path) -> None:
    job, signal = make_job(go=str(tmp_path / "go")), StartSignal(tmp_path / "go")
    result = Result(job, tmp_path / "result.json")
    for name, outcome in {"short": {"batched": True}, "long": {"batched": False}, "group": {"ms": 1.0}}.items():
        result.finish(name, outcome)
    assert signal.choices() == {}
    ahead.say_done(job, result)
    assert signal.choices() == {"short": True, "long": False}


@pytest.mark.parametrize("written", [b"", b"[1]", b"{", b'{"w": 1, "v": "true"}', b"\xff", b'{"w": true, "w": false}'])
def test_a_worker_may_have_written_anything(tmp_path: Path, written: bytes) -> None:
    (tmp_path / "go.done").write_bytes(written)
    assert StartSignal(tmp_path / "go").choices() == {}


def test_a_wait_ends_with_the_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter((7, 7, 1))
    monkeypatch.setattr(guard.os, "getppid", lambda: next(parents))
    monkeypatch.setattr(guard.time, "sleep", lambda _: None)
    with pytest.raises(TimeoutError, match="did not appear"):
        guard.wait_for(tmp_path / "absent")
