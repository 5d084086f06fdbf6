"""Commands work in the top folder, wherever the user is."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashcore_ci.run import place


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repo/.git").mkdir(parents=True)
    (tmp_path / "repo/sub/deep").mkdir(parents=True)
    (tmp_path / "repo/top.toml").touch()
    (tmp_path / "repo/sub/near.toml").touch()
    return tmp_path / "repo"


def test_the_top_is_that_of_git(repository: Path) -> None:
    assert place.top_of(repository / "sub/deep") == repository
    (repository / "sub/pyproject.toml").write_text("[tool.flashcore-ci]\n")
    assert place.top_of(repository / "sub/deep") == repository


def test_without_git_it_is_the_folder_of_the_table(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    assert place.top_of(tmp_path / "a/b") == tmp_path / "a/b"
    (tmp_path / "a/pyproject.toml").write_text("[tool.flashcore-ci]\n")
    assert place.top_of(tmp_path / "a/b") == tmp_path / "a"


def test_paths_of_the_user_are_found_from_the_top(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "sub")
    with place.at_top():
        assert Path.cwd() == repository
        assert place.at_start("near.toml") == Path("sub/near.toml")
        assert place.at_start("../top.toml") == Path("top.toml")
        assert place.at_start("top.toml") == Path("top.toml")  # as messages name it
        assert place.at_start("new") == Path("sub/new")
        assert place.at_start("../../out") == repository.parent / "out"
        assert place.at_start("/tmp/x") == Path("/tmp/x")
        assert place.seen_from_start(Path("runs/latest")) == "../runs/latest"
        assert place.seen_from_start(Path("/tmp/x")) == "/tmp/x"
    assert Path.cwd() == repository / "sub"


def test_at_the_top_nothing_changes(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    with place.at_top():
        assert place.at_start("a/../b") == Path("a/../b")
        assert place.seen_from_start(Path("runs/latest")) == "runs/latest"


def test_a_folder_that_is_gone_is_left_to_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with place.at_top():
        pass
