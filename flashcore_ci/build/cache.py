"""What was made before, kept by the digest of all that went into it. An entry is whole or absent."""

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


class Made(Protocol):
    """The record of a made file: ``digest`` is the SHA-256 of the file in hex."""

    @property
    def digest(self) -> str:
        """SHA-256 in hex."""
        ...


M = TypeVar("M", bound=Made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A folder of entries, one made file and its record each."""

    folder: Path

    def product(self, key: str) -> Path:
        """Where the file of this entry is, if there is such an entry."""
        return self.folder / key[:32] / _PRODUCT

    def load(self, record: type[M], key: str) -> M | None:
        """The record of this entry; None when there is none, or when its files were altered."""
        path = self.product(key).with_name(_RECORD)
        try:
            made = codec.decode(record, path.read_bytes(), where=str(path))
            whole = hashlib.sha256(self.product(key).read_bytes()).hexdigest() == made.digest
        except (OSError, EvidenceError):
            return None
        return made if whole else None

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

    def keep(self, key: str, product: Path, record: Made) -> None:
        """Make ``product``, a file in a workspace, the file of this entry."""
        ready = product.parent / ".ready"
        ready.mkdir()
        product.rename(ready / _PRODUCT)
        write_atomically(ready / _RECORD, codec.encode(record))
        final = self.product(key).parent
        if self.load(type(record), key) is None:
            shutil.rmtree(final, ignore_errors=True)
        with contextlib.suppress(OSError):  # another process was faster: its entry is as good, and maybe in use
            ready.rename(final)
