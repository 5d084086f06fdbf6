"""git: which commit a checkout is at. A checkout without git, or without history, is no error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.adapters import process
from flashcore_ci.model.errors import CannotCollectError, UsageError

TIMEOUT_SECONDS = 30.0
EXPORT_SECONDS = 300.0


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
    head = parse_commit(commit.text()) if commit.returncode == 0 else ""
    return Checkout(commit=head, dirty=bool(head) and (status.returncode != 0 or bool(status.text().strip())))


def revision_argv(root: Path, revision: str) -> tuple[str, ...]:
    """Ask which commit ``revision`` is. One that looks like an option is none."""
    return ("git", "-C", str(root), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")


def fork_argv(root: Path, ref: str) -> tuple[str, ...]:
    """Ask where the checkout's commit and ``ref`` parted. A ``ref`` that looks like an option is none."""
    return ("git", "-C", str(root), "merge-base", "--", "HEAD", ref)


def archive_argv(root: Path, commit: str, file: Path) -> tuple[str, ...]:
    """Ask for the files of ``commit`` in one tar."""
    return ("git", "-C", str(root), "archive", "--format=tar", f"--output={file}", commit)


def difference_argv(root: Path, commit: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Ask whether the working tree differs from ``commit`` in ``paths``: exit status 0 when it does not."""
    return ("git", "-C", str(root), "diff", "--quiet", commit, "--", *paths)


def commit_of(root: Path, revision: str, *, logs: Path) -> str:
    """The full hash of the commit that ``revision`` names. UsageError when it names none here."""
    found = process.run(revision_argv(root, revision), logs=logs, name="git-revision", timeout=TIMEOUT_SECONDS)
    commit = parse_commit(found.text()) if found.returncode == 0 else ""
    if not commit:
        fix = "name a commit or branch that is here: git fetch (actions/checkout: fetch-depth: 0)"
        raise UsageError(f"{revision!r} is no commit that git knows here", fix=fix)
    return commit


def fork_point(root: Path, ref: str, *, logs: Path) -> str:
    """The commit at which this checkout's history left ``ref``'s. UsageError when there is none, or it was not fetched."""
    completed = process.run(fork_argv(root, ref), logs=logs, name="git-merge-base", timeout=TIMEOUT_SECONDS)
    commit = parse_commit(completed.text())
    if completed.returncode != 0 or not commit:
        fix = "name a commit or branch that is here: git fetch (actions/checkout: fetch-depth: 0)"
        raise UsageError(f"this checkout and {ref!r} have no commit in common that git knows here", fix=fix)
    return commit


def export(root: Path, commit: str, *, into: Path, logs: Path) -> None:
    """Write the files of ``commit`` to the folder ``into``. CannotCollectError when git or tar cannot."""
    into.mkdir(parents=True)
    file = logs / "base.tar"
    for name, argv in (("git-archive", archive_argv(root, commit, file)), ("tar", ("tar", "-xf", str(file), "-C", str(into)))):
        completed = process.run(argv, logs=logs, name=name, timeout=EXPORT_SECONDS)
        if completed.returncode != 0:
            lines = completed.error_text().splitlines()
            raise CannotCollectError(f"cannot read the files of {commit[:12]}: {lines[0] if lines else name}", fix="git fsck")


def differs(root: Path, commit: str, paths: Sequence[str], *, logs: Path) -> bool:
    """Whether anything tracked under ``paths`` is not as it was in ``commit``."""
    completed = process.run(difference_argv(root, commit, paths), logs=logs, name="git-diff", timeout=TIMEOUT_SECONDS)
    return completed.returncode != 0
