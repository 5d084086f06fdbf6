"""The files of other commits, kept where the next run finds them: what the cache holds was compiled at that very path."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from flashcore_ci.adapters import clock, git
from flashcore_ci.model.identity import digest_of
from flashcore_ci.run.request import Request

SHOWN = 12
"""How many digits of a commit people compare."""
KEPT = 16
"""The checkouts that are kept whatever their age; of the others, those that nobody used for ``IDLE_SECONDS`` go."""
IDLE_SECONDS = 24 * 3600.0


def of(commit: str, request: Request, scratch: Path, *, ours: tuple[str, ...] = ()) -> Path:
    """The files of ``commit``, except that those named in ``ours`` are as in this checkout.

    CannotCollectError when git cannot give them. Nobody writes to that folder, so runs may share it.
    """
    changed = [(name, hashlib.sha256((request.root / name).read_bytes()).hexdigest()) for name in ours]
    tree = request.settings.home / "bases" / (f"{commit}-{digest_of(changed)[:SHOWN]}" if ours else commit)
    if not tree.is_dir():
        tree.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{commit[:SHOWN]}-", dir=tree.parent) as beside:
            files = Path(beside) / "files"
            git.export(request.repository, commit, into=files, logs=scratch)
            for name in ours:
                (files / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(request.root / name, files / name)
            with contextlib.suppress(OSError):  # another run was quicker; its files are the same
                files.rename(tree)
        evict(tree.parent)
    with contextlib.suppress(OSError):  # of another user, who uses it as well
        os.utime(tree)
    return tree


def evict(folder: Path) -> None:
    """Remove what was not used for longest, also what a run that was killed left half done. No run takes as long as it is spared."""
    used = sorted(((_used(entry), entry) for entry in folder.iterdir()), reverse=True)
    for when, entry in used[KEPT:]:
        if clock.wall() - when > IDLE_SECONDS:
            shutil.rmtree(entry, ignore_errors=True)


def _used(entry: Path) -> float:
    """When it was used last; now, if it went this very moment."""
    try:
        return entry.stat().st_mtime
    except OSError:
        return clock.wall()
