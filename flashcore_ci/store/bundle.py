"""A run in one file: a sorted tar without dates and owners, in xz."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from flashcore_ci.bounded import files
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.store.manifest import MANIFEST, MAX_BYTES, MAX_FILES, PLAN, refuse_name

PRESET = 9
MAX_PACKED_BYTES = 48 << 20
DECODER_MEMORY = 80 << 20
"""Bytes for the decoder. ``PRESET`` needs 65 MiB."""
BLOCK = tarfile.BLOCKSIZE
FIX = "give a run folder, or a file from `flashcore-ci pack`"


def pack_files(contents: Mapping[str, bytes]) -> bytes:
    """Pack these files in order. EvidenceError if a name is too long."""
    return lzma.compress(b"".join(_tar(contents)), format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=PRESET)


def unpack(path: Path) -> dict[str, bytes]:
    """Return the files of a bundle, in bounded memory. EvidenceError unless ``pack_files`` wrote it, byte for byte."""
    plain = _decompressed(path)
    try:
        members = dict(_members(plain, where=str(path)))
        canonical = _is_tar(plain, members)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise EvidenceError(f"{path}: not a packed run: {error}", fix=FIX) from None
    if not canonical:
        raise EvidenceError(f"{path}: not a packed run: it holds more than a run's files", fix=FIX)
    return members


def _members(plain: bytes, *, where: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a tar. Only plain headers are read: no other type can name, link or repeat anything."""
    at = 0
    names: set[str] = set()
    while any(header := plain[at : at + BLOCK]):
        info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        if info.name != MANIFEST:
            refuse_name(info.name, where=where)
        at += BLOCK
        if info.type != tarfile.REGTYPE or info.name in names or len(names) > MAX_FILES or not 0 <= info.size <= len(plain) - at:
            raise EvidenceError(f"{where}: {info.name} is given twice, is cut or is not a plain file", fix=FIX)
        names.add(info.name)
        yield info.name, _plan(plain, at, info.size) if info.name == PLAN else plain[at : at + info.size]
        at += -(-info.size // BLOCK) * BLOCK


def _plan(plain: bytes, at: int, size: int) -> bytes:
    """Return the plan at ``at``: the object of the last bundle if it has the same bytes. So it is copied, hashed and decoded once."""
    for known in tuple(_plans):
        if len(known) == size and plain.startswith(known, at):
            return known
    _plans[:] = [found := plain[at : at + size]]
    return found


_plans: list[bytes] = []


def _tar(contents: Mapping[str, bytes]) -> Iterator[bytes]:
    """Yield headers, contents and zeros, as ``tarfile.open`` writes them: it takes five times as long."""
    size = 2 * BLOCK
    for name, data in contents.items():
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = len(data), 0o644, 0
        try:
            header = info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape")
        except ValueError as error:
            raise EvidenceError(f"cannot pack {name}: {error}", fix="give the artifact a shorter name") from None
        for part in (header, data, bytes(-len(data) % BLOCK)):
            size += len(part)
            yield part
    yield bytes(2 * BLOCK + -size % tarfile.RECORDSIZE)


def _is_tar(plain: bytes, contents: Mapping[str, bytes]) -> bool:
    """Tell whether ``plain`` is what ``_tar`` gives."""
    at = 0
    for part in _tar(contents):
        if not plain.startswith(part, at):
            return False
        at += len(part)
    return at == len(plain)


def _decompressed(path: Path) -> bytes:
    try:
        data = files.read(path, limit=MAX_PACKED_BYTES)
    except OSError as error:
        raise EvidenceError(f"cannot read {path}: {error.strerror}", fix=FIX) from None
    decoder = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=DECODER_MEMORY)
    try:
        plain = decoder.decompress(data, max_length=MAX_BYTES + 1)
    except lzma.LZMAError as error:
        raise EvidenceError(f"{path}: not a packed run: {error}", fix=FIX) from None
    if len(plain) > MAX_BYTES:
        raise EvidenceError(f"{path}: too large for a packed run", fix=FIX)
    if not decoder.eof or decoder.unused_data:
        raise EvidenceError(f"{path}: not a packed run: it was cut, or bytes follow its end", fix=FIX)
    return plain
