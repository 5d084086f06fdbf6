"""Files of noise recordings and baselines: JSON, or JSON in xz."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import TypeVar

from flashcore_ci.bounded import files
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.store.codec import decode, encode
from flashcore_ci.store.files import write_atomically

T = TypeVar("T")
PATTERN = "*.json*"
PACKED = ".xz"
DECODER_MEMORY = 80 << 20
"""Bytes for the decoder. The largest preset of xz needs 65 MiB."""
MAX_RECORDS = 200
"""Files of one folder."""


def read_all(record: type[T], folder: Path) -> tuple[tuple[Path, T], ...]:
    """Read every record in ``folder``, by file name. EvidenceError for a broken file."""
    found = sorted(folder.glob(PATTERN))
    if len(found) > MAX_RECORDS:
        raise EvidenceError(f"{folder} holds {len(found)} records, and {MAX_RECORDS} are allowed", fix="remove old ones")
    return tuple((file, read(record, file)) for file in found)


def read(record: type[T], file: Path) -> T:
    """Read one record. EvidenceError if it is not whole."""
    try:
        data = files.read(file, limit=files.MAX_RECORD)
        if file.suffix == PACKED:
            data = lzma.LZMADecompressor(memlimit=DECODER_MEMORY).decompress(data, files.MAX_RECORD + 1)
    except (OSError, lzma.LZMAError, EOFError) as error:
        why = getattr(error, "strerror", None) or error
        raise EvidenceError(f"{file}: cannot be read: {why}", fix="restore the file, or remove it") from None
    return decode(record, data, where=str(file))


def write(record: object, file: Path) -> None:
    """Write the record, reproducibly, in xz if ``file`` ends so."""
    data = encode(record)
    write_atomically(file, lzma.compress(data, preset=9) if file.suffix == PACKED else data)
