"""The files of other commits, kept because the cache is bound to their path."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from flashcore_ci.adapters import clock, git, git_export
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.identity import digest_of
from flashcore_ci.run.request import Request

DIGEST_DIGITS = 12
MIN_KEPT = 16
"""This many checkouts are kept whatever their age. Others go when they were not used for ``IDLE_SECONDS``."""
IDLE_SECONDS = 24 * 3600.0


def check_out(
    commit: str, request: Request, scratch: Path, *, other_files: tuple[str, ...] = (), other: Path | None = None
) -> Path:
    """Return a folder with the files of ``commit``, but ``other_files`` of the checkout ``other`` (None: head's).

    CannotCollectError when git cannot.
    """
    source = other or request.root
    digests = [(name, hashlib.sha256((source / name).read_bytes()).hexdigest()) for name in other_files]
    tree = request.settings.home / "bases" / (f"{commit}-{digest_of(digests)[:DIGEST_DIGITS]}" if other_files else commit)
    if not tree.is_dir():
        tree.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{git.short(commit)}-", dir=tree.parent) as new:
            files = Path(new) / "files"
            git_export.export(request.repository, commit, into=files, logs=scratch)
            for name in other_files:
                _refuse_link(files, name, commit)
                (files / name).parent.mkdir(parents=True, exist_ok=True)
                (files / name).unlink(missing_ok=True)
                shutil.copyfile(source / name, files / name)
            with contextlib.suppress(OSError):  # another run was quicker, and its files are the same
                files.rename(tree)
        evict(tree.parent)
    with contextlib.suppress(OSError):  # the folder may belong to another user
        os.utime(tree)
    return tree


def _refuse_link(files: Path, name: str, commit: str) -> None:
    """CannotCollectError if ``name`` would be written elsewhere: a commit may hold a link to any folder."""
    if (files / name).parent.resolve() != files.resolve() / Path(name).parent:
        fix = "put a folder in the place of the link"
        raise CannotCollectError(f"{name} is behind a link in {git.short(commit)}", fix=fix)


def evict(folder: Path) -> None:
    """Remove checkouts that no run can still use."""
    by_use = sorted(((_last_use(entry), entry) for entry in folder.iterdir()), reverse=True)
    for when, entry in by_use[MIN_KEPT:]:
        if clock.wall() - when > IDLE_SECONDS:
            shutil.rmtree(entry, ignore_errors=True)


def _last_use(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:
        return clock.wall()
