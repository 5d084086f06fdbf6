"""git: which commit a checkout is at. A checkout without git, or without history, is no error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.adapters import process
from flashcore_ci.model.errors import CannotCollectError

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The commit (empty when there is none) and whether tracked files differ from it."""

    commit: str
    dirty: bool


def commit_argv(root: Path) -> tuple[str, ...]:
    """Ask for the commit of the checkout at ``root``."""
    return ("git", "-C", str(root), "rev-parse", "--verify", "--quiet", "HEAD")


def status_argv(root: Path) -> tuple[str, ...]:
    """Ask which tracked files under ``root`` differ from the commit."""
    return ("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")


def parse_commit(text: str) -> str:
    """The commit's full hash; empty when the text is none."""
    word = text.strip()
    return word if len(word) in (40, 64) and set(word) <= set("0123456789abcdef") else ""


def checkout(root: Path, *, logs: Path) -> Checkout:
    """The state of the checkout at ``root``; what git printed is kept in ``logs``."""
    try:
        commit = process.run(commit_argv(root), logs=logs, name="git-commit", timeout=TIMEOUT_SECONDS)
        status = process.run(status_argv(root), logs=logs, name="git-status", timeout=TIMEOUT_SECONDS)
    except CannotCollectError:
        return Checkout(commit="", dirty=False)
    known = parse_commit(commit.text()) if commit.returncode == 0 else ""
    return Checkout(commit=known, dirty=bool(known) and (status.returncode != 0 or bool(status.text().strip())))
