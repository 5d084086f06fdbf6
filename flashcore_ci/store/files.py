"""Files that are whole or absent: temporary file, fsync, atomic rename."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from flashcore_ci.model.errors import CannotCollectError


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data``: a reader sees the old file or the whole new one. CannotCollectError if the disk refuses."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise CannotCollectError(f"cannot write {path}: {error.strerror}", fix=f"make {path.parent} writable") from None
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise CannotCollectError(f"cannot write {path}: {error.strerror}", fix="free disk space") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
