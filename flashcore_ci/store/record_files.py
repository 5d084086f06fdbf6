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
"""Files of one folder, which hold ``MAX_BYTES`` of JSON together."""
MAX_BYTES = 2 * files.MAX_RECORD


def read_all(record: type[T], folder: Path) -> tuple[tuple[Path, T], ...]:
    """Read every record in ``folder``, by file name. EvidenceError for a broken file."""
    found = sorted(folder.glob(PATTERN))
    if len(found) > MAX_RECORDS:
        raise EvidenceError(f"{folder} holds {len(found)} records, and {MAX_RECORDS} are allowed", fix="remove old ones")
    records, total = [], 0
    for file in found:
        data = _read(file)
        total += len(data)
        if total > MAX_BYTES:
            raise EvidenceError(f"{folder} holds more than {MAX_BYTES >> 20} MiB of records", fix="remove old ones")
        records.append((file, decode(record, data, where=str(file))))
    return tuple(records)


def read(record: type[T], file: Path) -> T:
    """Read one record. EvidenceError if it is not whole."""
    return decode(record, _read(file), where=str(file))


def _read(file: Path) -> bytes:
    try:
        data = files.read(file, limit=files.MAX_RECORD)
        if file.suffix == PACKED:
            data = _unpacked(data)
    except (OSError, lzma.LZMAError, EOFError, MemoryError) as error:
        why = getattr(error, "strerror", None) or error
        raise EvidenceError(f"{file}: cannot be read: {why}", fix="restore the file, or remove it") from None
    return data


def _unpacked(data: bytes) -> bytes:
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=DECODER_MEMORY)
    plain = decoder.decompress(data, files.MAX_RECORD + 1)
    if (not decoder.eof and len(plain) <= files.MAX_RECORD) or decoder.unused_data:
        raise EOFError("it was cut, or bytes follow its end")
    return plain


def write(record: object, file: Path) -> None:
    """Write the record, reproducibly, in xz if ``file`` ends so."""
    data = encode(record)
    write_atomically(file, lzma.compress(data, preset=9) if file.suffix == PACKED else data)
