"""Pinned actions against what git says of their tags; git is a stand-in that answers from a table."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from replayed import ROOT

FAKE = """#!{python}
import json, os, sys
kind, url, *names = sys.argv[1:]
assert kind == "ls-remote"
table = json.loads(os.environ["TAGS"])
repository = url.removeprefix("https://github.com/")
if repository not in table:
    sys.exit("fatal: repository not found")
for name, commit in table[repository].items():
    if name in names:
        print(commit, name, sep="\\t")
"""


def shipped() -> dict[str, dict[str, str]]:
    spec = importlib.util.spec_from_file_location("check_pins", ROOT / ".github/checks/check_pins.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table: dict[str, dict[str, str]] = {}
    for repository, commit, tag in module.pins(ROOT / ".github"):
        table.setdefault(repository, {})[f"refs/tags/{tag}"] = commit
    return table


def asked(tmp_path: Path, tags: dict[str, dict[str, str]]) -> subprocess.CompletedProcess[str]:
    (tmp_path / "git").write_text(FAKE.format(python=sys.executable))
    (tmp_path / "git").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "TAGS": json.dumps(tags)}
    argv = [sys.executable, ".github/checks/check_pins.py"]
    return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)


def test_pins_that_are_their_tags(tmp_path: Path) -> None:
    done = asked(tmp_path, shipped())
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(shipped()) >= 6


def test_an_annotated_tag_counts_by_its_commit(tmp_path: Path) -> None:
    annotated = {
        repository: dict.fromkeys(tags, "f" * 40) | {f"{name}^{{}}": commit for name, commit in tags.items()}
        for repository, tags in shipped().items()
    }
    assert asked(tmp_path, annotated).returncode == 0


@pytest.mark.parametrize("wrong", [{"refs/tags/v6.0.2": "0" * 40}, {}, None])
def test_a_pin_that_is_not_its_tag(tmp_path: Path, wrong: dict[str, str] | None) -> None:
    tags = (
        {**shipped(), "actions/checkout": wrong}
        if wrong is not None
        else {k: v for k, v in shipped().items() if k != "actions/checkout"}
    )
    done = asked(tmp_path, tags)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("actions/checkout: ")
