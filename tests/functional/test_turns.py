"""Few CUDA contexts at a time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from flashcore_ci.worker import turns


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_folders", [])
    monkeypatch.setattr(turns, "POLL_SECONDS", 0.001)


def test_who_comes_too_early_waits_for_a_turn_to_end(tmp_path: Path) -> None:
    held = [turns._take(tmp_path) for _ in range(turns.AT_ONCE)]
    turns.use(str(tmp_path))
    had_its_turn = threading.Event()

    def make_a_context() -> None:
        with turns.one():
            had_its_turn.set()

    thread = threading.Thread(target=make_a_context)
    thread.start()
    assert not had_its_turn.wait(0.05)
    os.close(held.pop() or -1)
    assert had_its_turn.wait(10)
    thread.join()
    os.close(held.pop() or -1)


def test_a_process_has_one_turn(tmp_path: Path) -> None:
    turns.use(str(tmp_path))
    with turns.one():
        pass
    held = [turns._take(tmp_path) for _ in range(turns.AT_ONCE)]
    with turns.one():  # else it would wait
        pass
    for one in held:
        os.close(one or -1)


def test_nobody_waits_for_ever_or_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [turns._take(tmp_path) for _ in range(turns.AT_ONCE)]
    monkeypatch.setattr(turns, "MAX_SECONDS", 0.01)
    assert turns._take(tmp_path) is None
    assert turns._take(tmp_path / "absent") is None
    (tmp_path / turns.NAME.format(0)).unlink()
    (tmp_path / turns.NAME.format(0)).symlink_to(tmp_path / "elsewhere")
    assert turns._take(tmp_path) is None
    turns.use("")
    with turns.one():
        pass
    for one in held:
        os.close(one or -1)
