"""Files of this machine."""

from __future__ import annotations

from pathlib import Path

from flashcore_ci.bounded import files


def sha256(path: Path) -> str:
    """Return the SHA-256 of a plain file in hex, or "" if it cannot be read."""
    try:
        return files.sha256(path)
    except OSError:
        return ""
