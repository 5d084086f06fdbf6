"""What the environment says. Nothing else reads it; the mapping is passed in."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SYSTEM_LOCKS = Path("/var/lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where things live on this machine.

    ``home`` holds toolchain and build cache, ``python`` is the interpreter that runs the worker (torch may live in another
    one than ours), ``lock_dir`` holds the locks of GPUs.
    """

    home: Path
    python: Path
    lock_dir: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        """FLASHCORE_CI_HOME (else XDG_CACHE_HOME, else ~/.cache), FLASHCORE_CI_PYTHON, FLASHCORE_CI_LOCK_DIR; empty is unset."""
        cache = Path(environ.get("XDG_CACHE_HOME") or _home(environ) / ".cache")
        locks = SYSTEM_LOCKS if os.access(SYSTEM_LOCKS, os.W_OK) else Path(tempfile.gettempdir())
        return cls(
            home=Path(environ.get("FLASHCORE_CI_HOME") or cache / "flashcore-ci"),
            python=Path(environ.get("FLASHCORE_CI_PYTHON") or sys.executable),
            lock_dir=Path(environ.get("FLASHCORE_CI_LOCK_DIR") or locks),
        )


def _home(environ: Mapping[str, str]) -> Path:
    """A user without a home folder, as in some containers, keeps things where temporary files go."""
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError:
        return Path(tempfile.gettempdir())
