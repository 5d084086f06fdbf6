"""A cache of built files, keyed by a digest of all that went into each."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from flashcore_ci.bounded import files
from flashcore_ci.model.errors import CannotCollectError, EvidenceError
from flashcore_ci.store import codec
from flashcore_ci.store.files import write_atomically

_RECORD = "record.json"
_PRODUCT = "product"


class CacheRecord(Protocol):
    """A record with its key and the SHA-256 of the cached file in hex."""

    @property
    def key(self) -> str:
        """The key under which it was kept."""

    @property
    def digest(self) -> str:
        """SHA-256 in hex."""


R = TypeVar("R", bound=CacheRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A folder of entries: a file and its record each, whole or absent."""

    folder: Path

    def product_path(self, key: str) -> Path:
        """Return the path of this entry's file."""
        return self.folder / key[:32] / _PRODUCT

    def load(self, record: type[R], key: str) -> R | None:
        """Return this entry's record, or None if it is absent, altered, or another entry's."""
        path = self.product_path(key).with_name(_RECORD)
        try:
            cached = codec.decode(record, files.read(path, limit=files.MAX_RECORD), where=str(path))
            intact = cached.key == key and files.sha256(self.product_path(key)) == cached.digest
        except (OSError, EvidenceError):
            return None
        return cached if intact else None

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """Yield a temporary folder. CannotCollectError if the disk refuses."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".new-", ignore_cleanup_errors=True) as name:
                yield Path(name)
        except OSError as error:
            fix = "free disk space, or set FLASHCORE_CI_HOME to a writable folder"
            raise CannotCollectError(f"cannot write to {self.folder}: {error.strerror or error}", fix=fix) from None

    def keep(self, key: str, product: Path, record: CacheRecord) -> None:
        """Move ``product``, a file in a workspace, into this entry."""
        entry = product.parent / ".entry"
        entry.mkdir()
        product.rename(entry / _PRODUCT)
        write_atomically(entry / _RECORD, codec.encode(record))
        final = self.product_path(key).parent
        if self.load(type(record), key) != record:
            shutil.rmtree(final, ignore_errors=True)
        with contextlib.suppress(OSError):  # another process was faster. Its entry is equal and may be in use.
            entry.rename(final)
