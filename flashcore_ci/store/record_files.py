"""Files of noise recordings and baselines: JSON, or JSON in xz."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import TypeVar

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.store.codec import decode, encode
from flashcore_ci.store.files import write_atomically

T = TypeVar("T")
PATTERN = "*.json*"
PACKED = ".xz"
MAX_BYTES = 64 << 20


def read_all(record: type[T], folder: Path) -> tuple[tuple[Path, T], ...]:
    """Read every record in ``folder``, by file name. EvidenceError for a broken file."""
    return tuple((file, read(record, file)) for file in sorted(folder.glob(PATTERN)))


def read(record: type[T], file: Path) -> T:
    """Read one record. EvidenceError if it is not whole."""
    try:
        data = file.read_bytes()
        if file.suffix == PACKED:
            data = lzma.LZMADecompressor().decompress(data, MAX_BYTES)
    except (OSError, lzma.LZMAError) as error:
        raise EvidenceError(f"{file}: cannot be read: {error}", fix="restore the file, or remove it") from None
    return decode(record, data, where=str(file))


def write(record: object, file: Path) -> None:
    """Write the record, reproducibly, in xz if ``file`` ends so."""
    data = encode(record)
    write_atomically(file, lzma.compress(data, preset=9) if file.suffix == PACKED else data)
