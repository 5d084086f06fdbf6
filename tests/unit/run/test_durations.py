from __future__ import annotations

from pathlib import Path

import pytest

from flashcore_ci.run.durations import MAX_COMMANDS, Durations


def test_each_command_line_is_remembered_apart(tmp_path: Path) -> None:
    Durations(file=tmp_path / "d.json", key="gate smoke").save({"compiled": 1.23, "profile": 4.0})
    Durations(file=tmp_path / "d.json", key="gate hopper").save({"compiled": 9.0})
    assert Durations(file=tmp_path / "d.json", key="gate smoke").load() == {"compiled": 1.2, "profile": 4.0}
    assert Durations(file=tmp_path / "d.json", key="gate other").load() == {}


def test_without_a_key_nothing_is_kept(tmp_path: Path) -> None:
    Durations.at_home({"FLASHCORE_CI_HOME": str(tmp_path)}, "").save({"compiled": 1.0})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"gate": 7}', '{"gate": {"compiled": "long"}}', '{"gate": {"a": 1e308, "b": 1e308}}', "\0"]
)
def test_a_file_that_is_none_of_ours_says_nothing_and_is_replaced(tmp_path: Path, content: str) -> None:
    file = tmp_path / "d.json"
    file.write_text(content)
    durations = Durations(file=file, key="gate")
    assert durations.load() == {}
    durations.save({"compiled": 1.0})
    assert durations.load() == {"compiled": 1.0}


def test_old_commands_are_forgotten(tmp_path: Path) -> None:
    for number in range(MAX_COMMANDS + 5):
        Durations(file=tmp_path / "d.json", key=str(number)).save({"compiled": 1.0})
    assert Durations(file=tmp_path / "d.json", key="4").load() == {}
    assert Durations(file=tmp_path / "d.json", key="5").load() == {"compiled": 1.0}


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Durations(file=tmp_path / "file/d.json", key="gate").save({"compiled": 1.0})
