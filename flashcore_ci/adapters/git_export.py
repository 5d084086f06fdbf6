"""Write the files of a commit to a folder, byte by byte. Each is proven by its digest."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from flashcore_ci.adapters import git, process, worktree
from flashcore_ci.model.errors import CannotCollectError

EXPORT_SECONDS = 300.0
EXPORT_BYTES = 64 << 20
"""Bytes of files that one process prints, and at least one file."""
READ_OBJECTS = 'exec git -C "$0" cat-file --batch <"$1"'


def export(root: Path, commit: str, *, into: Path, logs: Path, other: tuple[str, Path] | None = None) -> None:
    """Write the files of ``commit`` to the new folder ``into``, byte by byte. No attribute leaves out or changes a file.

    ``other`` is a commit and the folder that it was written to: files that are the same become links to the same data.
    """
    into.mkdir(parents=True)
    try:
        tree = git.sound_tree(root, commit, logs)
        there = git.sound_tree(root, other[0], logs) if other else {}
        plain = {path: entry for path, entry in tree.items() if entry.size >= 0}
        _make_folders(plain, into)
        same = (path for path, entry in plain.items() if entry.mode != worktree.LINK and there.get(path) == entry)
        kept = {path for path in same if other and _link(f"{other[1]}/{path}", f"{into}/{path}")}
        changed = sorted((entry.mode == worktree.LINK, path, entry) for path, entry in plain.items() if path not in kept)
        sizes = itertools.accumulate(entry.size + 100 for _, _, entry in changed)
        parts = itertools.groupby(zip(changed, sizes, strict=True), key=lambda each: each[1] // EXPORT_BYTES)
        for _, part in parts:  # links come last, so that no file is written through one
            _write([(path, entry) for (_, path, entry), _ in part], root, into, logs)
        for path in (path for path, entry in tree.items() if entry.mode == worktree.SUBMODULE):
            (into / path).mkdir(parents=True, exist_ok=True)
    except ValueError as error:
        raise CannotCollectError(f"cannot read the files of {git.short(commit)}: {error}", fix="git fsck") from None


def _make_folders(paths: Iterable[str], into: Path) -> None:
    for folder in sorted({path.rpartition("/")[0] for path in paths}):
        (into / folder).mkdir(parents=True, exist_ok=True)


def _link(source: str, target: str) -> bool:
    """Tell whether it could be done. Not every file system can."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        return False
    return True


def _write(files: Sequence[tuple[str, worktree.Entry]], root: Path, into: Path, logs: Path) -> None:
    """Write these files. ValueError if git does not give the bytes that their digests name."""
    names = logs / "objects"
    names.write_text("".join(f"{entry.digest}\n" for _, entry in files), encoding="ascii")
    argv = ("sh", "-c", READ_OBJECTS, str(root.absolute()), str(names.absolute()))
    done = process.run(argv, logs=logs, name="git-objects", timeout=EXPORT_SECONDS, env=git.environment(os.environ))
    with done.stdout.open("rb") as objects:
        for path, entry in files:
            header = objects.readline()
            data = objects.read(entry.size + 1)[:-1]
            if (
                done.returncode
                or header != f"{entry.digest} blob {entry.size}\n".encode()
                or not worktree.is_blob(data, entry.digest)
            ):
                raise ValueError(f"git does not have {path}")
            if entry.mode == worktree.LINK:
                (into / path).symlink_to(os.fsdecode(data))
                continue
            with open(f"{into}/{path}", "xb") as file:  # noqa: PTH123 - paths as objects take twice as long
                file.write(data)
                os.fchmod(file.fileno(), 0o755 if entry.mode == worktree.EXECUTABLE else 0o644)
