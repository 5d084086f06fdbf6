"""Write new files into a checkout. Nothing that exists is overwritten."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from flashcore_ci.bounded import files
from flashcore_ci.model.errors import CannotCollectError, UsageError

IGNORED = "/runs/"


def write_new(root: Path, texts: Mapping[str, str]) -> None:
    """Write all of ``texts`` or none. UsageError if one exists, or would be outside of ``root``."""
    for name in texts:
        if os.path.lexists(root / name):
            raise UsageError(
                f"{name} exists, and nothing is overwritten", fix=f"remove {name}, or choose another name with --name"
            )
        if not files.resolve(root / name).is_relative_to(files.resolve(root)):
            raise UsageError(f"{name} would be outside of {root}", fix="remove the link, or choose another name with --name")
    written: list[Path] = []
    try:
        for name, text in texts.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            with (root / name).open("x", encoding="utf-8", newline="\n") as stream:
                written.append(root / name)
                stream.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        name = error.filename or "a file"
        raise CannotCollectError(f"cannot write {name}: {error.strerror}", fix="make the folder writable") from None


def ignore_runs(root: Path) -> bool:
    """Add the folder of runs to .gitignore, unless it is there. Return whether a line was added."""
    path = root / ".gitignore"
    if path.is_symlink() or (path.exists() and not path.is_file()):  # a FIFO would wait for a reader
        return False
    text = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
    if {IGNORED, "runs/", "/runs", "runs"} & set(text.splitlines()):
        return False
    with path.open("a", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(("" if not text or text.endswith("\n") else "\n") + IGNORED + "\n")
    return True
