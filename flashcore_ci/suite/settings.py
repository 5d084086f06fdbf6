"""Settings from the environment. Only this module interprets it."""

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
    """Folder of toolchain and cache (``home``), of GPU locks, and the worker's ``python``. ``libraries``: of cuBLAS and the like."""

    home: Path
    python: Path
    lock_dir: Path
    libraries: Path | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Settings:
        """Read FLASHCORE_CI_HOME, _PYTHON, _LOCK_DIR and _LIBRARIES. An empty value is unset."""
        cache = Path(environ.get("XDG_CACHE_HOME") or _home(environ) / ".cache")
        libraries = environ.get("FLASHCORE_CI_LIBRARIES")
        locks = SYSTEM_LOCKS if os.access(SYSTEM_LOCKS, os.W_OK) else Path(tempfile.gettempdir())
        return cls(
            home=Path(environ.get("FLASHCORE_CI_HOME") or cache / "flashcore-ci"),
            python=Path(environ.get("FLASHCORE_CI_PYTHON") or sys.executable),
            lock_dir=Path(environ.get("FLASHCORE_CI_LOCK_DIR") or locks),
            libraries=Path(libraries).resolve() if libraries else None,
        )


def _home(environ: Mapping[str, str]) -> Path:
    """Return the home folder, or a temporary one in containers."""
    try:
        return Path(environ.get("HOME") or Path.home())
    except RuntimeError:
        return Path(tempfile.gettempdir())
