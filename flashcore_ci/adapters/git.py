"""git: the commit of a checkout, and the files of another commit."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from flashcore_ci.adapters import process, worktree
from flashcore_ci.model.errors import CannotCollectError, UsageError

TIMEOUT_SECONDS = 30.0
REAL_OBJECTS = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull, "GIT_OPTIONAL_LOCKS": "0"}
"""Neither replace refs nor grafts put another object in the place of one."""
KINDS_OF_NAMES = ("refs/{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/{}", "refs/remotes/{}/HEAD")
ABBREVIATION = re.compile(r"(?:.*-g)?[0-9a-f]{4,39}")
REFUSALS = ("dubious ownership", "not a git repository")
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
        tree, is_whole = _tree(root, head, logs)
    except (CannotCollectError, ValueError):
        return Checkout(commit="", dirty=False)
    if not root.resolve().is_relative_to(top.resolve()) or not is_whole:
        return Checkout(commit=head, dirty=True, changes=("git's files or objects are not those of the commit",))
    changes = (*worktree.find_changes(top, tree, outputs), *_submodule_changes(top, tree, logs))
    return Checkout(commit=head, dirty=bool(changes), changes=changes)


def _tree(root: Path, commit: str, logs: Path) -> tuple[dict[str, worktree.Entry], bool]:
    """Return the files of ``commit``, and whether they are all of them and only those. ValueError if git cannot tell."""
    if (known := _whole_trees.get((root, commit))) is None:
        content = _ask(("git", "-C", str(root), "cat-file", "commit", commit), logs, "git-object")
        known = worktree.parse_tree(_ask(worktree.tree_argv(root, commit), logs, "git-tree"))
        if not worktree.is_tree_of(commit, content, known):
            return known, False
        _whole_trees[root, commit] = known
    return known, True


_whole_trees: dict[tuple[Path, str], dict[str, worktree.Entry]] = {}
"""What digests prove does not change. A command asks for a few commits, several times each."""


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


def snapshot_argv(root: Path) -> tuple[str, ...]:
    """Ask for a commit of the tracked files as they are now (none without changes). The checkout stays as it is."""
    settings = ("user.name=flashcore-ci", "user.email=flashcore-ci", "core.fsmonitor=false", f"core.hooksPath={os.devnull}")
    return ("git", "-C", str(root), *(part for setting in settings for part in ("-c", setting)), "stash", "create")


def snapshot(root: Path, *, logs: Path) -> str:
    """Return a commit with the files of the checkout. CannotCollectError without one."""
    made = process.run(snapshot_argv(root), logs=logs, name="git-snapshot", timeout=TIMEOUT_SECONDS, env=environment(os.environ))
    commit = parse_commit(made.text()) or checkout(root, logs=logs).commit
    if made.returncode != 0 or not commit:
        raise CannotCollectError(f"git cannot read the files of {root}", fix="commit the changes")
    return commit


def commit_of(root: Path, revision: str, *, logs: Path) -> str:
    """Return the hash of ``revision``. UsageError if unknown here."""
    _refuse_two_meanings(root, revision, logs)
    return _find_commit(revision_argv(root, revision), f"commit {revision!r} in this checkout", name="git-revision", logs=logs)


def fork_point(root: Path, ref: str, *, logs: Path) -> str:
    """Return the merge base of HEAD and ``ref``. UsageError if unknown here."""
    _refuse_two_meanings(root, ref, logs)
    return _find_commit(fork_argv(root, ref), f"common commit of this checkout and {ref!r}", name="git-merge-base", logs=logs)


def names_argv(root: Path, name: str) -> tuple[str, ...]:
    """Ask for every ref that git could mean by ``name``."""
    return ("git", "-C", str(root), "for-each-ref", "--format=%(refname)", *(kind.format(name) for kind in KINDS_OF_NAMES))


def meanings(revision: str, refs: Iterable[str]) -> list[str]:
    """Return all that ``revision`` may mean among ``refs``. A tag that someone pushed must not become the base."""
    name = re.split(r"[~^:]|@\{", revision)[0]
    known = {kind.format(name) for kind in KINDS_OF_NAMES}
    found = [ref for ref in refs if ref in known]
    return [*found, *([f"the commit {name}"] if found and ABBREVIATION.fullmatch(name) else [])]


def _refuse_two_meanings(root: Path, revision: str, logs: Path) -> None:
    if revision.startswith("refs/"):
        return
    argv = names_argv(root, re.split(r"[~^:]|@\{", revision)[0])
    refs = process.run(argv, logs=logs, name="git-names", timeout=TIMEOUT_SECONDS, env=environment(os.environ)).text()
    found = meanings(revision, refs.splitlines())
    if len(found) > 1:
        raise UsageError(f"{revision!r} may mean {' or '.join(found)}", fix=f"name it in full, as in {found[0]}")


def _find_commit(argv: Sequence[str], what: str, *, name: str, logs: Path) -> str:
    found = process.run(argv, logs=logs, name=name, timeout=TIMEOUT_SECONDS, env={**environment(os.environ), "LC_ALL": "C"})
    commit = parse_commit(found.text()) if found.returncode == 0 else ""
    said = [line.strip() for line in found.error_text().splitlines()] or [""]
    if not commit and any(refusal in said[0] for refusal in REFUSALS):
        fix = said[-1] if said[-1].startswith("git config") else "work in a clone of the repository"
        raise CannotCollectError(f"git cannot read this checkout: {said[0].removeprefix('fatal: ')}", fix=fix)
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


def touching(root: Path, old: str, new: str, paths: Sequence[str], logs: Path) -> frozenset[str]:
    """Return the commits after ``old`` on the first-parent line of ``new`` that change one of ``paths``."""
    argv = ("git", "-C", str(root), "rev-list", "--first-parent", f"{old}..{new}", "--", *paths)
    return frozenset(_ask(argv, logs, "git-touching").decode("ascii").split())


def file_at(root: Path, commit: str, path: str, *, logs: Path) -> bytes | None:
    """Return a file of ``commit``, or None if it has none."""
    try:
        return _ask(("git", "-C", str(root), "cat-file", "blob", f"{commit}:{path}"), logs, "git-file")
    except ValueError:
        return None


def files_of(root: Path, commit: str, *, logs: Path) -> dict[str, worktree.Entry]:
    """Return every file of ``commit`` with its digest. CannotCollectError unless git's objects are exactly those of the commit."""
    try:
        return sound_tree(root, commit, logs)
    except ValueError as error:
        raise CannotCollectError(f"cannot read the files of {short(commit)}: {error}", fix="git fsck") from None


def is_ancestor(root: Path, older: str, newer: str, *, logs: Path) -> bool:
    """Tell whether ``newer`` is ``older``, or was made after it. False for a commit that is not here."""
    argv = ("git", "-C", str(root), "merge-base", "--is-ancestor", older, newer)
    found = process.run(argv, logs=logs, name="git-ancestor", timeout=TIMEOUT_SECONDS, env=environment(os.environ))
    return bool(parse_commit(older)) and found.returncode == 0


def sound_tree(root: Path, commit: str, logs: Path) -> dict[str, worktree.Entry]:
    """Do as ``files_of``, but raise ValueError."""
    tree, is_whole = _tree(root, commit, logs)
    if not is_whole or any({"", ".", "..", ".git"}.intersection(path.split("/")) for path in tree):
        raise ValueError("git's objects are not those of the commit")
    return tree


def differs(root: Path, commit: str, folder: str, *, except_for: str, logs: Path) -> bool:
    """Tell by content whether a file in ``folder`` of the checkout differs from ``commit``, but for those in ``except_for``."""
    try:
        top = Path(os.fsdecode(_ask(top_argv(root), logs, "git-top").removesuffix(b"\n")))
        tree, is_whole = _tree(root, commit, logs)
        prefix = PurePosixPath((root / folder).resolve().relative_to(top.resolve()).as_posix())
    except (CannotCollectError, ValueError):
        return True
    inside = {
        PurePosixPath(p).relative_to(prefix).as_posix(): e for p, e in tree.items() if PurePosixPath(p).is_relative_to(prefix)
    }
    changes = worktree.find_changes(root / folder, inside)
    return not is_whole or any(not change.startswith(f"{except_for}/") for change in changes)
