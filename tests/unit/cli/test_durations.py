from __future__ import annotations

from pathlib import Path

import click
import pytest

from flashcore_ci.cli.durations import MOST_COMMANDS, Memory


def test_each_command_line_is_remembered_apart(tmp_path: Path) -> None:
    Memory(file=tmp_path / "d.json", key="gate smoke").keep({"compiled": 1.23, "profile": 4.0})
    Memory(file=tmp_path / "d.json", key="gate hopper").keep({"compiled": 9.0})
    assert Memory(file=tmp_path / "d.json", key="gate smoke").recall() == {"compiled": 1.2, "profile": 4.0}
    assert Memory(file=tmp_path / "d.json", key="gate other").recall() == {}


def test_the_command_line_is_what_matters(tmp_path: Path) -> None:
    keys = set()
    for params in ({"suite": "a"}, {"suite": "b"}, {"suite": "a", "json": True}):
        context = click.Context(click.Command("gate"), info_name="gate")
        context.params = params
        with context:
            keys.add(Memory.of_command({"FLASHCORE_CI_HOME": str(tmp_path)}).key)
    assert len(keys) == 2


def test_without_a_command_nothing_is_kept(tmp_path: Path) -> None:
    Memory.of_command({"FLASHCORE_CI_HOME": str(tmp_path)}).keep({"compiled": 1.0})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "[]", "{", '{"gate": 7}', '{"gate": {"compiled": "long"}}', "\0"])
def test_a_file_that_is_none_of_ours_says_nothing_and_is_replaced(tmp_path: Path, content: str) -> None:
    file = tmp_path / "d.json"
    file.write_text(content)
    memory = Memory(file=file, key="gate")
    assert memory.recall() == {}
    memory.keep({"compiled": 1.0})
    assert memory.recall() == {"compiled": 1.0}


def test_old_commands_are_forgotten(tmp_path: Path) -> None:
    for number in range(MOST_COMMANDS + 5):
        Memory(file=tmp_path / "d.json", key=str(number)).keep({"compiled": 1.0})
    assert Memory(file=tmp_path / "d.json", key="4").recall() == {}
    assert Memory(file=tmp_path / "d.json", key="5").recall() == {"compiled": 1.0}


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Memory(file=tmp_path / "file/d.json", key="gate").keep({"compiled": 1.0})
