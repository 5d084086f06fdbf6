"""git: the commit of a checkout, and the files of another commit."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.adapters import process, worktree
from flashcore_ci.model.errors import CannotCollectError, UsageError

TIMEOUT_SECONDS = 30.0
EXPORT_SECONDS = 300.0
REAL_OBJECTS = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull, "GIT_OPTIONAL_LOCKS": "0"}
"""Neither replace refs nor grafts put another object in the place of one."""
SHORT = 12
"""Digits of a commit that people read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The commit (empty if unknown), and whether the files differ from it. ``changes`` has a line for each that does."""

    commit: str
    dirty: bool
    changes: tuple[str, ...] = ()


def short(commit: str) -> str:
    """Shorten a commit's hash."""
    return commit[:SHORT]


def commit_argv(root: Path) -> tuple[str, ...]:
    """Ask for the commit of ``root``."""
    return ("git", "-C", str(root), "rev-parse", "--verify", "--quiet", "HEAD")


def top_argv(root: Path) -> tuple[str, ...]:
    """Ask for the top folder of the work tree."""
    return ("git", "-C", str(root), "rev-parse", "--show-toplevel")


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that point git at no other repository, index or objects."""
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_") or name.startswith("GIT_CONFIG")}
    return {**kept, **REAL_OBJECTS}


def parse_commit(text: str) -> str:
    """Return the full hash, or an empty string."""
    word = text.strip()
    return word if len(word) in (40, 64) and set(word) <= set("0123456789abcdef") else ""


def checkout(root: Path, *, logs: Path, outputs: Collection[Path] = ()) -> Checkout:
    """Compare the checkout at ``root`` with its commit by content, but not ``outputs``. Empty without git or history."""
    try:
        head = parse_commit(_ask(commit_argv(root), logs, "git-commit").decode("ascii", errors="replace"))
        if not head:
            return Checkout(commit="", dirty=False)
        top = Path(os.fsdecode(_ask(top_argv(root), logs, "git-top").removesuffix(b"\n")))
        content = _ask(("git", "-C", str(root), "cat-file", "commit", head), logs, "git-object")
        tree = worktree.parse_tree(_ask(worktree.tree_argv(root, head), logs, "git-tree"))
    except (CannotCollectError, ValueError):
        return Checkout(commit="", dirty=False)
    if not root.resolve().is_relative_to(top.resolve()) or not worktree.is_tree_of(head, content, tree):
        return Checkout(commit=head, dirty=True, changes=("git's files or objects are not those of the commit",))
    changes = (*worktree.find_changes(top, tree, outputs), *_submodule_changes(top, tree, logs))
    return Checkout(commit=head, dirty=bool(changes), changes=changes)


def _submodule_changes(top: Path, tree: Mapping[str, worktree.Entry], logs: Path) -> list[str]:
    """Find submodules that are not empty, and have another commit or changes."""
    found = []
    for path, entry in tree.items():
        if (
            entry.mode == worktree.SUBMODULE
            and (top / path).exists()
            and (not (top / path).is_dir() or any((top / path).iterdir()))
        ):
            nested = checkout(top / path, logs=logs)
            if nested.dirty or nested.commit != entry.digest:
                found.append(f"{path} is a submodule with another commit or with changes")
    return found


def _ask(argv: Sequence[str], logs: Path, name: str) -> bytes:
    """Return what git prints. ValueError when it fails."""
    done = process.run(argv, logs=logs, name=name, timeout=TIMEOUT_SECONDS, env=environment(os.environ))
    if done.returncode != 0:
        raise ValueError(name)
    return done.stdout.read_bytes()


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
    found = process.run(argv, logs=logs, name=name, timeout=TIMEOUT_SECONDS, env=environment(os.environ))
    commit = parse_commit(found.text()) if found.returncode == 0 else ""
    if not commit:
        raise UsageError(
            f"git knows no {what}", fix="run git fetch (in actions/checkout: fetch-depth: 0), or name another commit"
        )
    return commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """One commit of a log. ``at`` in UTC seconds."""

    sha: str
    parent: str
    at: int
    subject: str


def log(root: Path, revision: str, *, logs: Path, all_first_parents: bool = False) -> tuple[Logged, ...]:
    """Return the commit, or with its first-parent line back to the root commit. UsageError if unknown here, or if the clone is shallow."""
    tip = commit_of(root, revision, logs=logs)
    try:
        if (
            all_first_parents
            and _ask(("git", "-C", str(root), "rev-parse", "--is-shallow-repository"), logs, "git-shallow") != b"false\n"
        ):
            raise UsageError("this clone is shallow, so no commit has a position", fix="git fetch --unshallow")
        amount = ("--first-parent",) if all_first_parents else ("-1",)
        argv = ("git", "-C", str(root), "log", "-z", "--no-show-signature", "--format=%H%x09%P%x09%ct%x09%s", *amount, tip, "--")
        lines = _ask(argv, logs, "git-log").decode("utf-8", errors="replace").split("\0")
        parts = [line.split("\t", 3) for line in lines if line]
        return tuple(
            Logged(sha=sha, parent=parents.split(" ")[0], at=int(at), subject=subject) for sha, parents, at, subject in parts
        )
    except ValueError:
        raise CannotCollectError(f"git cannot read the log of {short(tip)}", fix="git fsck") from None


def export(root: Path, commit: str, *, into: Path, logs: Path) -> None:
    """Write the files of ``commit`` to the new folder ``into``."""
    into.mkdir(parents=True)
    file = logs / "base.tar"
    for name, argv in (("git-archive", archive_argv(root, commit, file)), ("tar", ("tar", "-xf", str(file), "-C", str(into)))):
        done = process.run(argv, logs=logs, name=name, timeout=EXPORT_SECONDS, env=environment(os.environ))
        if done.returncode != 0:
            lines = done.error_text().splitlines()
            raise CannotCollectError(f"cannot read the files of {short(commit)}: {lines[0] if lines else name}", fix="git fsck")


def differs(root: Path, commit: str, paths: Sequence[str], *, logs: Path) -> bool:
    """Tell whether a tracked file under ``paths`` differs from ``commit``."""
    argv = difference_argv(root, commit, paths)
    done = process.run(argv, logs=logs, name="git-diff", timeout=TIMEOUT_SECONDS, env=environment(os.environ))
    return done.returncode != 0
