"""Read plain files up to a limit. Pipes, devices and folders are refused before they can hang or fill the memory."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

KIB, MIB = 1 << 10, 1 << 20
MAX_RECORD = 16 * MIB
"""Bytes of a record in JSON. The largest that is committed has 2 MiB."""
MAX_LOG = 8 * MIB
"""Bytes of a tool's log. The largest that is committed has 0.3 MiB."""
MAX_SOURCE = 4 * MIB
MAX_BINARY = 1024 * MIB
"""Bytes of a library or an object, which is hashed in parts."""
_PART = MIB
_MAX_LOCK = 32
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def resolve(path: Path) -> Path:
    """Follow links as far as possible. Unlike ``Path.resolve``, it never raises for a loop or a long name."""
    return Path(os.path.realpath(path))


def read(path: Path, *, limit: int, follow: bool = True) -> bytes:
    """Read a whole plain file. OSError says in ``strerror`` what it is instead, or that it is larger than ``limit``."""
    data = b"".join(_parts(path, limit + 1, follow))
    if len(data) > limit:
        raise _too_large(limit)
    return data


def read_start(path: Path, *, limit: int, follow: bool = True) -> bytes:
    """Read at most the first ``limit`` bytes of a plain file. OSError as ``read``."""
    return b"".join(_parts(path, limit, follow))


def read_end(path: Path, *, limit: int) -> bytes:
    """Read at most the last ``limit`` bytes of a plain file. OSError as ``read``."""
    return b"".join(_parts(path, limit, True, from_end=True))


def append(path: Path) -> BinaryIO:
    """Open a plain file to add to its end. OSError as ``read``."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o644)
    if not is_plain(descriptor):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a plain file")
    file = os.fdopen(descriptor, "ab")
    file.seek(0, os.SEEK_END)
    return file


def sha256(path: Path) -> str:
    """Hash a plain file in hex, in parts. OSError as ``read``."""
    digest, size = hashlib.sha256(), 0
    for part in _parts(path, MAX_BINARY + 1, True):
        digest.update(part)
        size += len(part)
    if size > MAX_BINARY:
        raise _too_large(MAX_BINARY)
    return digest.hexdigest()


def is_plain(descriptor: int) -> bool:
    """Tell whether an open file is a plain one: no device, pipe, socket or folder."""
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def is_lock(descriptor: int) -> bool:
    """Tell whether an open file is a lock: plain, of one name, and empty or the number of a process. Another must not be cut."""
    if not is_plain(descriptor) or os.fstat(descriptor).st_nlink > 1:
        return False
    content = os.pread(descriptor, _MAX_LOCK + 1, 0)
    return not content or (len(content) <= _MAX_LOCK and content.strip().isdigit())


def _parts(path: Path, limit: int, follow: bool, *, from_end: bool = False) -> Iterator[bytes]:
    try:
        descriptor = os.open(path, _FLAGS | (0 if follow else os.O_NOFOLLOW))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.EINVAL, "it is a link, not a plain file") from None
        if error.errno == errno.ENXIO:
            raise OSError(errno.EINVAL, "it is a socket, not a plain file") from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, f"it is {_kind(status.st_mode)}, not a plain file")
        if from_end and status.st_size > limit:
            os.lseek(descriptor, -limit, os.SEEK_END)
        while limit > 0 and (part := os.read(descriptor, min(limit, _PART))):
            limit -= len(part)
            yield part
    finally:
        os.close(descriptor)


def _kind(mode: int) -> str:
    names = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(mode), "a device")


def _too_large(limit: int) -> OSError:
    return OSError(errno.EINVAL, f"it is too large: more than {f'{limit // MIB} MiB' if limit >= MIB else f'{limit} bytes'}")
