"""The files of other commits, kept where the next run finds them: what the cache holds was compiled at that very path."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from pathlib import Path

from flashcore_ci.adapters import git
from flashcore_ci.cli.request import Request
from flashcore_ci.model.identity import digest_of

SHOWN = 12
"""How many digits of a commit people compare."""


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
    return tree
