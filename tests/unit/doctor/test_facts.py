from __future__ import annotations

from pathlib import Path

import pytest

from flashcore_ci.adapters import ncu, process
from flashcore_ci.adapters.process import Completed
from flashcore_ci.doctor import facts
from flashcore_ci.suite.settings import Settings


@pytest.mark.parametrize(
    ("status", "timed_out", "problem", "words"),
    [(0, False, False, "readable"), (-15, True, True, "did not end within"), (9, False, True, "ended with status 9")],
)
def test_counters_are_readable_only_if_ncu_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, timed_out: bool, problem: bool, words: str
) -> None:
    limits = []

    def run(argv: object, *, logs: Path, name: str, timeout: float) -> Completed:
        limits.append(timeout)
        hangs = name == "ncu"
        return Completed(
            argv=("ncu",),
            returncode=status if hangs else 0,
            timed_out=timed_out and hangs,
            seconds=1.0,
            stdout=logs / "out",
            stderr=logs / "err",
        )

    monkeypatch.setattr(process, "run", run)
    monkeypatch.setattr(ncu, "find", lambda: Path("ncu"))
    settings = Settings(home=tmp_path, python=Path("python"), lock_dir=tmp_path)
    counters = facts._profiler(settings, True, tmp_path)[-1]
    assert (counters.problem, words in counters.fact) == (problem, True)
    assert max(limits) <= 60.0


@pytest.mark.parametrize(
    ("printed", "problem", "words"),
    [
        ("2.11.0 13.0 True True", False, "2.11.0, CUDA 13.0 (python)"),
        ("2.11.0 13.0 True False", False, "Without compiled files"),
        ("2.11.0 13.0 False False", True, "does not see the GPU"),
        ("", True, "not in python"),
    ],
)
def test_a_torch_that_every_process_compiles_again_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, problem: bool, words: str
) -> None:
    out = tmp_path / "out"
    out.write_text(printed + "\n")
    done = Completed(argv=("python",), returncode=0, timed_out=False, seconds=1.0, stdout=out, stderr=out)
    monkeypatch.setattr(process, "run", lambda *_, **__: done)
    found = facts._torch(Settings(home=tmp_path, python=Path("python"), lock_dir=tmp_path), True, tmp_path)
    assert (found.problem, words in found.fact) == (problem, True)
    assert ("compileall" in found.fix) == ("compiled files" in found.fact)
