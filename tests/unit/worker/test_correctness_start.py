"""What a correctness worker does first. The driver makes one context at a time, and meanwhile it imports."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.worker import correctness, driver
from flashcore_ci.worker.isolated_subject import IsolatedSubject
from flashcore_ci.worker.job import Job, Subject


@pytest.mark.parametrize("candidate", [(), ("c.py",)])
@pytest.mark.parametrize("gpus", [1, 2])
def test_it_imports_the_compiler_while_contexts_are_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, candidate: tuple[str, ...], gpus: int
) -> None:
    did: list[str] = []
    subjects = SimpleNamespace(prepare=lambda **_: did.append("prepare"), preload=lambda: did.append("preload"))
    monkeypatch.setattr(correctness, "Subjects", lambda job: subjects)
    monkeypatch.setattr(correctness, "start_beside", lambda: SimpleNamespace(join=lambda: did.append("context")))
    guard = SimpleNamespace(begin=lambda *_: did.append("begin"), run_each=lambda *_, **__: True)
    monkeypatch.setattr(correctness, "guard", guard)
    gpu = SimpleNamespace(total_memory=80 << 30)
    cuda = SimpleNamespace(Stream=lambda: None, get_device_properties=lambda _: gpu)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    subject = Subject(name="s", file=tmp_path / "s.py", library=None, candidate=candidate)
    fields: dict[str, Any] = {"nonce": "n", "digest": "d", "root": tmp_path, "folder": tmp_path, "workloads": ()}
    options = {"repeats": 1, "entries": {}} | ({"gpus": gpus} if gpus > 1 else {})
    assert correctness.run(Job(kind="correctness", subjects=(subject,), options=options, **fields), None)  # type: ignore[arg-type]
    assert did[did.index("preload") :] == (["preload", "context", "begin"] if gpus == 1 else ["preload", "begin"])


@pytest.mark.parametrize("late", [False, True])
def test_only_a_late_launch_of_a_candidate_is_held_in_its_own_process(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    did: list[Any] = []
    subject = object.__new__(IsolatedSubject)
    monkeypatch.setattr(IsolatedSubject, "run", lambda *_: did.append("run"))
    monkeypatch.setattr(IsolatedSubject, "_launch", lambda self, do, inputs, outputs, **fields: did.append((do, fields)))
    monkeypatch.setattr(correctness.tensors, "poison", lambda outputs, which: did.append(which))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(synchronize=lambda: None)))
    correctness._run(subject, {}, {}, 1, late=late)
    assert did == ([1, ("held", {"poison": 1})] if late else [1, "run"])


def test_waits_sleep_in_the_context_that_is_made_first(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[str, int]] = []

    class Cuda:
        def __getattr__(self, name: str) -> Any:
            return lambda *values: called.append((name, values[-1])) or 0

    monkeypatch.setattr(driver.ctypes, "CDLL", lambda _: Cuda())
    driver.make_context()
    assert [name for name, _ in called] == ["cuInit", "cuDevicePrimaryCtxSetFlags_v2", "cuDevicePrimaryCtxRetain"]
    assert called[1][1] == driver.BLOCKING_SYNC
