"""``build.json``: the builds in one folder, bound to the libraries next to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from flashcore_ci.bounded import files
from flashcore_ci.model.errors import EvidenceError, UsageError
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.store import codec
from flashcore_ci.store.files import write_atomically

FILE = "build.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSet:
    """``build.json``. ``library`` is relative to its folder. ``sources``: per subject a token digest of sources and headers."""

    builds: tuple[BuildEvidence, ...]
    sources: tuple[tuple[str, str], ...]
    schema: Literal["build-v1"] = "build-v1"


def refuse_foreign(folder: Path, libraries: Iterable[str]) -> None:
    """Raise UsageError if a build would overwrite other files."""
    file = folder / FILE
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", fix="give --out another folder")
    with contextlib.suppress(EvidenceError):
        codec.decode(BuildSet, _read(folder), where=str(file))
        return
    for name in (FILE, *libraries):
        if (folder / name).exists():
            raise UsageError(f"{folder / name} exists and was not written by a build", fix="give --out another folder")


def write_builds(folder: Path, build_set: BuildSet) -> None:
    """Write ``build.json`` into ``folder``."""
    write_atomically(folder / FILE, codec.encode(build_set))


def read_builds(folder: Path) -> BuildSet:
    """Read the builds in ``folder``. EvidenceError unless record and libraries are whole."""
    build_set = codec.decode(BuildSet, _read(folder), where=str(folder / FILE))
    for build in build_set.builds:
        if build.library:
            _check_library(folder, build)
    return build_set


def _read(folder: Path) -> bytes:
    try:
        return files.read(folder / FILE, limit=files.MAX_RECORD)
    except OSError as error:
        raise EvidenceError(f"{folder / FILE}: {error.strerror}", fix="write it with flashcore-ci build --out DIR") from None


def _check_library(folder: Path, build: BuildEvidence) -> None:
    path = folder / build.library
    if not files.resolve(path).is_relative_to(files.resolve(folder)):
        raise EvidenceError(f"{folder / FILE}: {build.library} is outside this folder", fix="build again")
    try:
        digest = files.sha256(path)
    except OSError as error:
        raise EvidenceError(f"{path}: {error.strerror}", fix="copy the whole folder, or build again") from None
    if digest != build.library_digest:
        fix = "copy the whole folder, or build again"
        raise EvidenceError(f"{path}: not the library that was built for {build.subject}", fix=fix)
