"""What the process that compares may import."""

from pathlib import Path

import pytest

from flashcore_ci.run.bar import unknown
from flashcore_ci.run.base import bar
from flashcore_ci.run.request import Request

ROOT = Path("/checkout")


def test_heads_folders_are_not_imported_from():
    path = ["", "tools", "/checkout", "/checkout/vendor", "/checkout/.venv/lib/python3.11/site-packages", "/usr/lib/python3.11"]
    assert bar.libraries_of(path, ROOT) == tuple(path[-2:])


def test_the_chosen_tool_comes_first():
    found = bar.environment({"PATH": "/bin"}, bar.Tool(folder=Path("/base"), name="a tool"), ("/usr/lib",))
    assert found["PYTHONPATH"] == "/base:/usr/lib"


@pytest.mark.parametrize("has_submodules", [True, False])
def test_a_base_without_the_files_of_its_submodules_says_so(tmp_path, monkeypatch, has_submodules):
    def export(*_, into, **__):
        into.mkdir()
        (into / ".gitmodules").write_text("") if has_submodules else None

    monkeypatch.setattr(bar.git_export, "export", export)
    monkeypatch.setattr(bar, "_ask", lambda *_: unknown("there is no such file"))
    request = Request(suite=Path("s.toml"), out=tmp_path, environ={}, checkout=tmp_path)
    problem = bar.compare_bar("0" * 40, request, print, scratch=tmp_path).difference.problem
    assert problem.startswith("there is no such file")
    assert ("in git submodules are not compared" in problem) == has_submodules
