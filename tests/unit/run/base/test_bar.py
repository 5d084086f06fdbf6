"""What the process that compares may import."""

from pathlib import Path

from flashcore_ci.run.base import bar

ROOT = Path("/checkout")


def test_heads_folders_are_not_imported_from():
    path = ["", "tools", "/checkout", "/checkout/vendor", "/checkout/.venv/lib/python3.11/site-packages", "/usr/lib/python3.11"]
    assert bar.libraries_of(path, ROOT) == tuple(path[-2:])


def test_the_chosen_tool_comes_first():
    found = bar.environment({"PATH": "/bin"}, bar.Tool(folder=Path("/base"), name="a tool"), ("/usr/lib",))
    assert found["PYTHONPATH"] == "/base:/usr/lib"
