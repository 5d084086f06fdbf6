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
