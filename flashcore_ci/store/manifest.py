"""The manifest of a run: files with size and digest, and rules for names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.store.codec import decode

MANIFEST = "manifest.json"
PLAN = "plan.json"
EVIDENCE = "evidence.json"
ARTIFACTS = "artifacts"
MAX_FILES = 10_000
MAX_BYTES = 96 << 20
"""Of all files of a run. The largest that is committed has 11 MiB. A reader keeps three copies in less than 500 MB."""
MAX_PATH = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file of a run: path (slashes), bytes, SHA-256 in hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """``manifest.json``: all files but itself, sorted by path."""

    files: tuple[Member, ...]
    schema: Literal["run-v1"] = "run-v1"


def member_of(path: str, data: bytes) -> Member:
    """Return the manifest's line for this content."""
    return Member(path=path, size=len(data), sha256=_sha256(data) if path == PLAN else hashlib.sha256(data).hexdigest())


def _sha256(data: bytes) -> str:
    """Hash a plan once for all shards of it."""
    for known, digest in tuple(_hashed):
        if known == data:
            return digest
    digest = hashlib.sha256(data).hexdigest()
    _hashed[:] = [(data, digest)]
    return digest


_hashed: list[tuple[bytes, str]] = []


def manifest_of(files: Iterable[tuple[str, bytes]]) -> Manifest:
    """Return the manifest of these files, in this order."""
    return Manifest(files=tuple(member_of(name, data) for name, data in files))


def refuse_name(path: str, *, where: str) -> None:
    """Raise EvidenceError unless ``path`` is plan, evidence or artifact."""
    parts = path.split("/")
    plain = path.isprintable() and "\\" not in path and not {"", ".", ".."}.intersection(parts) and len(path) <= MAX_PATH
    if not plain or (path not in {PLAN, EVIDENCE} and (parts[0] != ARTIFACTS or len(parts) == 1)):
        raise EvidenceError(
            f"{where}: {path[:MAX_PATH]!r} is not a file of a run", fix="give a run folder or a file that `pack` wrote"
        )


def verify_files(data: bytes, names: Collection[str], read: Callable[[str], bytes], *, where: str) -> dict[str, bytes]:
    """Return the files ``names``. EvidenceError unless they are exactly those of the manifest in ``data``."""
    manifest = decode(Manifest, data, where=f"{where}/{MANIFEST}")
    paths = [member.path for member in manifest.files]
    if len(paths) != len(set(paths)) or len(paths) > MAX_FILES:
        raise EvidenceError(f"{where}/{MANIFEST}: files are listed twice or are too many", fix="collect again")
    if sum(member.size for member in manifest.files) > MAX_BYTES or any(member.size < 0 for member in manifest.files):
        raise EvidenceError(f"{where}/{MANIFEST}: the sizes listed are impossible", fix="collect again")
    _refuse_difference(set(paths), set(names), where)
    contents = {}
    for member in manifest.files:
        refuse_name(member.path, where=where)
        content = read(member.path)
        if member_of(member.path, content) != member:
            raise EvidenceError(f"{where}: {member.path} was altered: its digest is not the recorded one", fix="collect again")
        contents[member.path] = content
    return contents


def _refuse_difference(listed: set[str], present: set[str], where: str) -> None:
    missing = sorted(({PLAN, EVIDENCE} - listed) | (listed - present))
    if missing:
        raise EvidenceError(f"{where}: {missing[0]} is missing", fix="collect again: the run is not whole")
    extra = sorted(present - listed)
    if extra:
        raise EvidenceError(f"{where}: {extra[0]} is not in the manifest", fix="remove the files that are not of this run")
