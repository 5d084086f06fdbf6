"""A run in one file: a sorted tar without dates and owners, in xz."""

from __future__ import annotations

import io
import lzma
import tarfile
from collections.abc import Mapping
from pathlib import Path

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.store.manifest import MANIFEST, MAX_BYTES, MAX_FILES, refuse_name

PRESET = 9
MAX_PACKED_BYTES = 128 << 20
DECODER_MEMORY = 256 << 20
FIX = "give a run folder, or a file from `flashcore-ci pack`"


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """Pack these files in order. EvidenceError if a name is too long."""
    return lzma.compress(_tar(files), format=lzma.FORMAT_XZ, check=lzma.CHECK_SHA256, preset=PRESET)


def unpack(path: Path) -> dict[str, bytes]:
    """Return the files of a bundle, in bounded memory. EvidenceError unless ``pack_files`` wrote it, byte for byte."""
    plain = _decompressed(path)
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:", encoding="utf-8") as archive:
            for info in archive:
                if info.name != MANIFEST:
                    refuse_name(info.name, where=str(path))
                plain_file = info.type == tarfile.REGTYPE and not info.issparse() and info.size <= len(plain)
                if not plain_file or info.name in files or len(files) > MAX_FILES:
                    raise EvidenceError(f"{path}: {info.name} is given twice or is not a plain file", fix=FIX)
                content = archive.extractfile(info)
                files[info.name] = content.read() if content else b""
        canonical = _tar(files) == plain
    except (tarfile.TarError, ValueError, OSError, EOFError) as error:
        raise EvidenceError(f"{path}: not a packed run: {error}", fix=FIX) from None
    if not canonical:
        raise EvidenceError(f"{path}: not a packed run: it holds more than a run's files", fix=FIX)
    return files


def _tar(files: Mapping[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT, encoding="utf-8") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(data), 0o644, 0
            try:
                archive.addfile(info, io.BytesIO(data))
            except ValueError as error:
                raise EvidenceError(f"cannot pack {name}: {error}", fix="give the artifact a shorter name") from None
    return target.getvalue()


def _decompressed(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PACKED_BYTES + 1)
    except OSError as error:
        raise EvidenceError(f"cannot read {path}: {error.strerror}", fix=FIX) from None
    if len(data) > MAX_PACKED_BYTES:
        raise EvidenceError(f"{path}: too large for a packed run", fix=FIX)
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
