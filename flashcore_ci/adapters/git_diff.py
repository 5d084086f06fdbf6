"""git: the files of a folder of another commit, and what differs between two commits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from flashcore_ci.adapters import process
from flashcore_ci.adapters.git import TIMEOUT_SECONDS, environment, parse_commit
from flashcore_ci.model.errors import CannotCollectError


def files_argv(root: Path, commit: str, folder: str) -> tuple[str, ...]:
    """Ask for the names in a folder of a commit."""
    return ("git", "-C", str(root), "ls-tree", "-z", "--full-tree", "--name-only", commit, f"{folder}/")


def numstat_argv(root: Path, before: str, after: str) -> tuple[str, ...]:
    """Ask for added and removed lines of every file that differs between two commits."""
    options = ("--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "-z", "--end-of-options")
    return ("git", "-C", str(root), "diff", *options, before, after, "--")


def files_in(root: Path, commit: str, folder: str, *, logs: Path) -> tuple[str, ...]:
    """List the files of a folder of ``commit``. CannotCollectError if git does not know it."""
    found = _ask(files_argv(root, commit, folder), logs, "git-files")
    if found is None:
        raise CannotCollectError(f"git cannot list {folder} of {commit}", fix="fetch the whole history: git fetch --unshallow")
    return tuple(name for name in found.split("\0") if name)


def changed_lines(root: Path, before: str, after: str, *, logs: Path) -> tuple[tuple[str, str, str], ...]:
    """List (file, added, removed) between two commits. Empty if git does not know one of them."""
    known = parse_commit(before) and parse_commit(after)
    text = _ask(numstat_argv(root, before, after), logs, "git-numstat") if known else None
    rows = (row.split("\t", 2) for row in (text or "").split("\0") if row.count("\t") >= 2)  # noqa: PLR2004 - two numbers and a name
    return tuple((name, added, removed) for added, removed, name in rows)


def _ask(argv: Sequence[str], logs: Path, name: str) -> str | None:
    done = process.run(argv, logs=logs, name=name, timeout=TIMEOUT_SECONDS, env=environment(os.environ))
    return done.stdout.read_bytes().decode("utf-8", errors="replace") if done.returncode == 0 else None
