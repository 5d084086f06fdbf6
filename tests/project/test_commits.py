"""Commit subjects: ``area: change``, at most 72 characters, no semicolon."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SINCE = "c3d5a88"
"""The last commit before the rule."""
MAX_CHARACTERS = 72
AREA = re.compile(r"[\w./-]+(?:, [\w./-]+)*: \S")
BEFORE_THE_TEST = frozenset(
    {"docs tools: fill marked blocks of hand-written pages", "docs tools: generate every page with one script"}
)
"""Two subjects with a blank in the area. They were merged before this test."""
BEFORE_A_RECORDING = frozenset(
    {
        "selftest: plant decode that masks a window's tiles and does not skip them",
        "collect: give correctness a head start, and its large rows five processes",
    }
)
"""One character too long. Recorded evidence names a later commit, so these cannot be written anew."""


@pytest.fixture(autouse=True)
def no_outside_world() -> None:
    """Replace the guard of this folder: the history has to come from git."""


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)


def is_plain(subject: str) -> bool:
    return len(subject) <= MAX_CHARACTERS and ";" not in subject and AREA.match(subject) is not None


def test_subjects_are_short_and_name_their_area() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    if git("merge-base", "--is-ancestor", SINCE, "HEAD").returncode != 0:
        pytest.skip(f"the history since {SINCE} is not here: fetch it with git fetch --unshallow")
    subjects = git("log", "--no-merges", "--format=%s", f"{SINCE}..HEAD").stdout.splitlines()
    assert [
        subject for subject in subjects if not is_plain(subject) and subject not in BEFORE_THE_TEST | BEFORE_A_RECORDING
    ] == []


@pytest.mark.parametrize("subject", ["docs: fix a word", "judge, run: rename the base", "tools/peers: add a plot"])
def test_a_plain_subject(subject: str) -> None:
    assert is_plain(subject)


@pytest.mark.parametrize("subject", ["Fix a word", "docs: one; two", "docs:fix", "docs: " + 70 * "x", "some words: change"])
def test_a_subject_that_is_refused(subject: str) -> None:
    assert not is_plain(subject)
