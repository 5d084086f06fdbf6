"""The tool that runs FlashAttention-3's own tests in several processes, over several sessions. Its tests are not here, so a stand-in is."""

from __future__ import annotations

import collections
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.worker import cases as runner
from flashcore_ci.worker import guard
from tools.bench import upstream as tool

Judge = Callable[[Any], tuple[str, str]]


@pytest.fixture
def subject(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the tool run in this process, without a GPU. ``judge`` decides what a case results in."""
    found = tool.load_subject()
    found.judge = lambda _case: ("passed", "")
    events = [SimpleNamespace(name="flashcore_attention"), SimpleNamespace(name="gemm")]
    profile = lambda **_options: contextlib.nullcontext(SimpleNamespace(events=lambda: events))  # noqa: E731
    fake: Any = SimpleNamespace(
        cuda=SimpleNamespace(memory_reserved=lambda: tool.LARGE + 1, empty_cache=lambda: None),
        profiler=SimpleNamespace(profile=profile, ProfilerActivity=SimpleNamespace(CUDA=1)),
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(found, "load_tests", lambda: None)
    monkeypatch.setattr(tool, "load_subject", lambda: found)
    monkeypatch.setattr(runner, "run_case", lambda _subject, case: found.judge(case))
    monkeypatch.setattr(guard, "context_error", lambda: "")
    monkeypatch.setattr(tool, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _seconds: None))
    return found


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["upstream.py", *map(str, arguments)])
    return tool.main()


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_second_run_leaves_out_what_passed(
    subject: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    subject.judge = lambda case: ("wrong" if case.arguments["causal"] else "passed", "")
    group = ("--group", "dense", "--profile", 20)
    assert run(monkeypatch, "run", first, *group) == 1
    subject.judge = lambda _case: ("passed", "")
    assert run(monkeypatch, "run", second, *group, "--sample", 600, "--sample", 2500, "--done", first) == 0
    wrong = {row["case"] for row in rows(first) if row["result"] == "wrong"}
    again = {row["case"] for row in rows(second)}
    added = {str(case) for case in subject.upstream_cases.choose(2500, "dense", 18)}
    assert wrong
    assert again == wrong | added
    assert tool.table([first, second]) == 0
    text = capsys.readouterr().out
    assert f"{len(rows(first)) + len(added)} different cases" in text
    assert "ran a kernel of FlashCore" in text
    assert {row.get("kernels") for row in rows(second)} == {None, 1}


def test_cases_of_e4m3_keep_the_names_of_their_groups(subject: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "rows"
    assert run(monkeypatch, "run", file, "--sample", 1000, "--group", "fp8-cache", "--group", "fp8-columns") == 0
    found = collections.Counter(row["group"] for row in rows(file))
    assert found == {group: len(subject.upstream_fp8.choose(1000, group, 18)) for group in ("fp8-cache", "fp8-columns")}


def test_processes_divide_the_cases(
    subject: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[bool] = []
    gpus: list[str] = []

    def start(command: list[str], *, env: dict[str, str], **_options: object) -> Any:
        gpus.append(env["CUDA_VISIBLE_DEVICES"])
        broken, end = len(ended) == 2, (lambda _seconds=0.0: 134)
        ended.append(broken)
        if not broken:
            status = run(monkeypatch, *command[2:])
            end = lambda _seconds=0.0: status  # noqa: E731
        return SimpleNamespace(wait=end, kill=lambda: None)

    monkeypatch.setattr(subprocess, "Popen", start)
    argv = ("run", tmp_path / "rows", "--group", "append", "--gpus", 0, 3, "--processes")
    assert run(monkeypatch, *argv, 2) == 0
    assert gpus == ["0", "3"]
    files = [tmp_path / f"rows.{i}" for i in range(2)]
    names = [row["case"] for file in files for row in rows(file)]
    assert len(set(names)) == len(names) == len(subject.upstream_cases.choose(600, "append", 18))
    assert run(monkeypatch, *argv, 2) == 1
    assert "rows.0: status 134, see rows.0.log\n1 of 2 processes failed" in capsys.readouterr().out


def test_a_case_without_memory_is_tried_again(subject: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tries: list[Any] = []

    def judge(case: Any) -> tuple[str, str]:
        tries.append(case)
        if len(tries) in {1, *range(3, 3 + tool.TRIES)}:
            raise RuntimeError("CUDA out of memory")
        return "passed", ""

    subject.judge = judge
    assert run(monkeypatch, "run", tmp_path / "rows", "--group", "cache") == 0
    found = [row["result"] for row in rows(tmp_path / "rows")]
    assert found[:3] == ["passed", tool.UNJUDGED, "passed"]
    assert set(found[3:]) == {"passed"}
    subject.judge = lambda _case: 1 / 0
    with pytest.raises(ZeroDivisionError):
        run(monkeypatch, "run", tmp_path / "rows", "--group", "cache")


def test_a_lost_context_ends_the_process(subject: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    subject.judge = lambda _case: ("wrong", "an illegal memory access was encountered")
    monkeypatch.setattr(guard, "context_error", lambda: "an illegal memory access was encountered")
    assert run(monkeypatch, "run", tmp_path / "rows", "--group", "cache") == 1
    assert len(rows(tmp_path / "rows")) == 1


def test_a_row_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    file.write_text('{"case": "a"}\n{"case": "b"}\n{"ca')
    assert [row["case"] for row in tool.read([file])] == ["a", "b"]
