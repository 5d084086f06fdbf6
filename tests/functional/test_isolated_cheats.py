"""Candidates that cheat: the suite has each published one, with a link, and a function that does it."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests/attacks/isolated"
MODULES = ("work", "outputs", "times", "escapes")


def functions() -> set[str]:
    trees = [ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")) for name in MODULES]
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}


def sources() -> dict[str, str]:
    """Read SOURCES without an import, which needs torch."""
    tree = ast.parse((FOLDER / "candidate.py").read_text(encoding="utf-8"))
    assigned = {n.targets[0].id: n.value for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)}
    links = {name: value.value for name, value in assigned.items() if isinstance(value, ast.Constant)}
    named = assigned["SOURCES"]
    assert isinstance(named, ast.Dict)
    return {ast.literal_eval(key): links[value.id] for key, value in zip(named.keys, named.values, strict=True) if key}  # type: ignore[attr-defined]


def suite() -> dict[str, object]:
    return tomllib.loads((FOLDER / "isolated.toml").read_text(encoding="utf-8"))


def cheats() -> list[str]:
    large: list[str] = suite()["workload"][0]["each"]["cheat"]  # type: ignore[index]
    return large


def test_twenty_published_cheats_of_four_sources() -> None:
    text = (FOLDER / "candidate.py").read_text(encoding="utf-8")
    assert "SEEN_THROUGH_OTHERS = (SAKANA,)" in text
    read = [link for link in sources().values() if "sakana.ai" not in link]
    assert len(read) >= 20
    assert len({urlsplit(link).netloc + urlsplit(link).path.rpartition("/")[0] for link in read}) >= 4
    assert all(link.startswith("https://") for link in sources().values())


def test_each_is_in_the_suite_and_does_something() -> None:
    assert set(sources()) <= set(cheats())
    assert set(cheats()) <= functions()
    assert len(cheats()) == len(set(cheats()))


def test_the_subject_is_not_trusted() -> None:
    (subject,) = suite()["subject"]  # type: ignore[misc]
    assert subject["trust"] == "none"
    assert {Path(file).stem for file in subject["candidate"]} == {"candidate", *MODULES}
