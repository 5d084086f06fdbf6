"""Shard files. The digest of each is in its name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from flashcore_ci.bounded import files
from flashcore_ci.bounded.files import MAX_RECORD
from flashcore_ci.model.errors import EvidenceError, UsageError
from flashcore_ci.model.shard import ShardFile
from flashcore_ci.store.claim import mark_folder
from flashcore_ci.store.codec import decode, encode
from flashcore_ci.store.files import write_new

FIX = "cut the suite again: flashcore-ci shard"
NAME = "shard-{index:03}-{digest}.json"
DIGITS = 12


def write(found: Iterable[ShardFile], folder: Path) -> tuple[Path, ...]:
    """Write each shard to a file that its digest names. UsageError for other shards there."""
    contents = [(shard, encode(shard)) for shard in found]
    names = [NAME.format(index=shard.index, digest=hashlib.sha256(data).hexdigest()[:DIGITS]) for shard, data in contents]
    with mark_folder(folder):
        other = sorted(path.name for path in folder.glob("shard-*.json") if path.name not in names)
        if other:
            raise UsageError(f"{folder} holds {other[0]}, which is of another cut", fix="give --out a new folder")
        for name, (_, data) in zip(names, contents, strict=True):
            if not write_new(folder / name, data):
                read(folder / name)  # refuses another content
    return tuple(folder / name for name in names)


def read(file: Path) -> ShardFile:
    """Read a shard file. EvidenceError if it is damaged or renamed."""
    try:
        data = files.read(file, limit=MAX_RECORD)
    except OSError as error:
        raise EvidenceError(f"{file}: cannot be read: {error.strerror}", fix=FIX) from None
    try:
        shard = decode(ShardFile, data, where=str(file))
    except EvidenceError as error:
        raise EvidenceError(str(error), fix=FIX) from None
    name = NAME.format(index=shard.index, digest=hashlib.sha256(data).hexdigest()[:DIGITS])
    if file.name != name:
        raise EvidenceError(f"{file}: its content belongs to {name}: it was altered or renamed", fix=FIX)
    return shard
