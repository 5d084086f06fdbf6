"""The programs of .github, loaded as modules: they are no package, and run alone on GitHub."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

GITHUB = Path(__file__).parents[2] / ".github"


def script(name: str) -> ModuleType:
    """Return an action's or a check's module by its file name."""
    for folder in ("actions", "checks"):
        if (GITHUB / folder / f"{name}.py").is_file():
            path = str(GITHUB / folder)
            sys.path.insert(0, path)
            try:
                return importlib.import_module(name)
            finally:
                sys.path.remove(path)
    raise ModuleNotFoundError(name)
