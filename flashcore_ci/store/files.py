"""Files that are whole or absent: temporary file, fsync, atomic rename."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from flashcore_ci.model.errors import CannotCollectError


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data``: a reader sees the old file or the whole new one. CannotCollectError if the disk refuses."""
    with _whole(path, data) as temporary:
        temporary.replace(path)


def write_new(path: Path, data: bytes) -> bool:
    """Write ``data`` as ``write_atomically``, or return False if there is such a file, even one made this moment."""
    with _whole(path, data) as temporary:
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
        except (PermissionError, NotImplementedError):  # a file system without hard links
            if os.path.lexists(path):
                return False
            temporary.replace(path)
    return True


@contextlib.contextmanager
def _whole(path: Path, data: bytes) -> Iterator[Path]:
    """Write a temporary file next to ``path``."""
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
        yield temporary
    except OSError as error:
        raise CannotCollectError(f"cannot write {path}: {error.strerror}", fix="free disk space") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
