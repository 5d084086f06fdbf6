import os

import pytest

from flashcore_ci.model.errors import UsageError
from flashcore_ci.scaffold import writing


def test_all_files_are_written(tmp_path):
    writing.write_new(tmp_path, {"a/b.py": "x\n", "c.toml": "y\n"})
    assert (tmp_path / "a/b.py").read_text() == "x\n"


@pytest.mark.parametrize("kind", ["file", "broken link", "folder"])
def test_nothing_is_overwritten_and_nothing_else_written(tmp_path, kind):
    old = tmp_path / "b.py"
    {"file": lambda: old.write_text("mine"), "broken link": lambda: old.symlink_to("gone"), "folder": old.mkdir}[kind]()
    with pytest.raises(UsageError, match=r"b\.py exists"):
        writing.write_new(tmp_path, {"a.py": "x", "b.py": "y"})
    assert not (tmp_path / "a.py").exists()


def test_a_link_does_not_lead_outside(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/gates").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="outside"):
        writing.write_new(tmp_path / "in", {"gates/x.py": "x"})


@pytest.mark.parametrize(("before", "after"), [(None, "/runs/\n"), ("a", "a\n/runs/\n"), ("a\nruns/\n", None), ("", "/runs/\n")])
def test_runs_are_ignored_once(tmp_path, before, after):
    file = tmp_path / ".gitignore"
    if before is not None:
        file.write_text(before)
    assert writing.ignore_runs(tmp_path) == (after is not None)
    assert file.read_text() == (before if after is None else after)


def test_a_fifo_is_left_alone(tmp_path):
    os.mkfifo(tmp_path / ".gitignore")
    assert not writing.ignore_runs(tmp_path)
