"""What was cached before, kept by the digest of all that went into it. An entry is intact or absent."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from flashcore_ci.model.errors import CannotCollectError, EvidenceError
from flashcore_ci.store import codec
from flashcore_ci.store.files import write_atomically

_RECORD = "record.json"
_PRODUCT = "product"


class CacheRecord(Protocol):
    """The record of a cached file: ``digest`` is the SHA-256 of the file in hex."""

    @property
    def digest(self) -> str:
        """SHA-256 in hex."""
        ...


R = TypeVar("R", bound=CacheRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A folder of entries, one cached file and its record each."""

    folder: Path

    def product_path(self, key: str) -> Path:
        """Where the file of this entry is, if there is such an entry."""
        return self.folder / key[:32] / _PRODUCT

    def load(self, record: type[R], key: str) -> R | None:
        """The record of this entry; None when there is none, or when its files were altered."""
        path = self.product_path(key).with_name(_RECORD)
        try:
            cached = codec.decode(record, path.read_bytes(), where=str(path))
            intact = hashlib.sha256(self.product_path(key).read_bytes()).hexdigest() == cached.digest
        except (OSError, EvidenceError):
            return None
        return cached if intact else None

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """A folder to make something in, gone afterwards. CannotCollectError when the disk refuses."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.folder, prefix=".new-", ignore_cleanup_errors=True) as name:
                yield Path(name)
        except OSError as error:
            raise CannotCollectError(
                f"cannot write in {self.folder}: {error.strerror or error}",
                fix="make room, or set FLASHCORE_CI_HOME to a folder that can be written",
            ) from None

    def keep(self, key: str, product: Path, record: CacheRecord) -> None:
        """Make ``product``, a file in a workspace, the file of this entry."""
        entry = product.parent / ".entry"
        entry.mkdir()
        product.rename(entry / _PRODUCT)
        write_atomically(entry / _RECORD, codec.encode(record))
        final = self.product_path(key).parent
        if self.load(type(record), key) is None:
            shutil.rmtree(final, ignore_errors=True)
        with contextlib.suppress(OSError):  # another process was faster: its entry is as good, and maybe in use
            entry.rename(final)
