"""git: the commit of a checkout, and the files of another commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.adapters import process
from flashcore_ci.model.errors import CannotCollectError, UsageError

TIMEOUT_SECONDS = 30.0
EXPORT_SECONDS = 300.0
SHORT = 12
"""Digits of a commit that people read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The commit (empty if unknown), and whether tracked files differ from it."""

    commit: str
    dirty: bool


def short(commit: str) -> str:
    """Shorten a commit's hash."""
    return commit[:SHORT]


def commit_argv(root: Path) -> tuple[str, ...]:
    """Ask for the commit of ``root``."""
    return ("git", "-C", str(root), "rev-parse", "--verify", "--quiet", "HEAD")


def status_argv(root: Path) -> tuple[str, ...]:
    """Ask which tracked files differ from the commit."""
    return ("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")


def parse_commit(text: str) -> str:
    """Return the full hash, or an empty string."""
    word = text.strip()
    return word if len(word) in (40, 64) and set(word) <= set("0123456789abcdef") else ""


def checkout(root: Path, *, logs: Path) -> Checkout:
    """Return the state of the checkout at ``root``, empty without git or history."""
    try:
        commit = process.run(commit_argv(root), logs=logs, name="git-commit", timeout=TIMEOUT_SECONDS)
        status = process.run(status_argv(root), logs=logs, name="git-status", timeout=TIMEOUT_SECONDS)
    except CannotCollectError:
        return Checkout(commit="", dirty=False)
    head = parse_commit(commit.text()) if commit.returncode == 0 else ""
    return Checkout(commit=head, dirty=bool(head) and (status.returncode != 0 or bool(status.text().strip())))


def revision_argv(root: Path, revision: str) -> tuple[str, ...]:
    """Ask for the commit of ``revision``, which is never an option."""
    return ("git", "-C", str(root), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")


def fork_argv(root: Path, ref: str) -> tuple[str, ...]:
    """Ask for the merge base of HEAD and ``ref``, which is never an option."""
    return ("git", "-C", str(root), "merge-base", "--", "HEAD", ref)


def archive_argv(root: Path, commit: str, file: Path) -> tuple[str, ...]:
    """Ask for the files of ``commit`` in one tar."""
    return ("git", "-C", str(root), "archive", "--format=tar", f"--output={file}", commit)


def difference_argv(root: Path, commit: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Ask whether ``paths`` differ from ``commit`` (exit status 0: no)."""
    return ("git", "-C", str(root), "diff", "--quiet", commit, "--", *paths)


def snapshot_argv(root: Path) -> tuple[str, ...]:
    """Ask for a commit of the tracked files as they are now (none without changes). The checkout stays as it is."""
    return ("git", "-C", str(root), "-c", "user.name=flashcore-ci", "-c", "user.email=flashcore-ci", "stash", "create")


def snapshot(root: Path, *, logs: Path) -> str:
    """Return a commit with the files of the checkout. CannotCollectError without one."""
    made = process.run(snapshot_argv(root), logs=logs, name="git-snapshot", timeout=TIMEOUT_SECONDS)
    commit = parse_commit(made.text()) or checkout(root, logs=logs).commit
    if made.returncode != 0 or not commit:
        raise CannotCollectError(f"git cannot read the files of {root}", fix="commit the changes")
    return commit


def commit_of(root: Path, revision: str, *, logs: Path) -> str:
    """Return the hash of ``revision``. UsageError if unknown here."""
    return _find_commit(revision_argv(root, revision), f"commit {revision!r} in this checkout", name="git-revision", logs=logs)


def fork_point(root: Path, ref: str, *, logs: Path) -> str:
    """Return the merge base of HEAD and ``ref``. UsageError if unknown here."""
    return _find_commit(fork_argv(root, ref), f"common commit of this checkout and {ref!r}", name="git-merge-base", logs=logs)


def _find_commit(argv: Sequence[str], what: str, *, name: str, logs: Path) -> str:
    found = process.run(argv, logs=logs, name=name, timeout=TIMEOUT_SECONDS)
    commit = parse_commit(found.text()) if found.returncode == 0 else ""
    if not commit:
        raise UsageError(
            f"git knows no {what}", fix="run git fetch (in actions/checkout: fetch-depth: 0), or name another commit"
        )
    return commit


def export(root: Path, commit: str, *, into: Path, logs: Path) -> None:
    """Write the files of ``commit`` to the new folder ``into``."""
    into.mkdir(parents=True)
    file = logs / "base.tar"
    for name, argv in (("git-archive", archive_argv(root, commit, file)), ("tar", ("tar", "-xf", str(file), "-C", str(into)))):
        done = process.run(argv, logs=logs, name=name, timeout=EXPORT_SECONDS)
        if done.returncode != 0:
            lines = done.error_text().splitlines()
            raise CannotCollectError(f"cannot read the files of {short(commit)}: {lines[0] if lines else name}", fix="git fsck")


def differs(root: Path, commit: str, paths: Sequence[str], *, logs: Path) -> bool:
    """Tell whether a tracked file under ``paths`` differs from ``commit``."""
    return process.run(difference_argv(root, commit, paths), logs=logs, name="git-diff", timeout=TIMEOUT_SECONDS).returncode != 0
