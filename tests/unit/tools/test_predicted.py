"""What the page says about a recording: untouched only after the predictions, for the rule that they were for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tool() -> Any:
    before = sys.path[:]
    sys.path.insert(0, str(ROOT / "tools/detectors"))
    try:
        import predicted

        return predicted
    finally:
        sys.path[:] = before


def test_the_digest_is_of_the_rule(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, folder = tool.rule_digest(), tmp_path / "flashcore_ci/history"
    folder.mkdir(parents=True)
    for name in tool.RULE_FILES:
        folder.joinpath(name).write_bytes((tool.ROOT / "flashcore_ci/history" / name).read_bytes())
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    assert tool.rule_digest() == before
    folder.joinpath("levels.py").write_text("SHARES = ()")
    assert tool.rule_digest() != before


def test_a_recording_before_the_predictions_is_not_untouched(tool: Any) -> None:
    assert "not untouched" in tool.standing("2026-11-23T20:29:59Z", tool.RULE)


def test_a_rule_that_changed_after_the_predictions_has_no_untouched_recording(tool: Any) -> None:
    assert "not untouched" in tool.standing("2026-11-23T21:00:00Z", "0" * 16)


def test_a_later_recording_for_the_same_rule_is_untouched(tool: Any) -> None:
    assert tool.standing("2026-11-23T21:00:00Z", tool.RULE).startswith("It came after the predictions")
