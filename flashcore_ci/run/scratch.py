"""A folder for temporary files."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a temporary folder, and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as name:
        yield Path(name)
