"""Claim an output folder by a locked marker. Foreign files are never overwritten."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from flashcore_ci.bounded import files
from flashcore_ci.model.errors import CannotCollectError, UsageError
from flashcore_ci.store.manifest import ARTIFACTS, EVIDENCE, MANIFEST, PLAN

REPORTS = ("report.json", "junit.xml", "dossier.json", "results.sarif", "summary.md", "comment.md", "report.html")
DECISION = "decision.json"
LOGS = "logs"
MARKER = ".flashcore-ci"
OUTSIDE_RUN = frozenset({*REPORTS, DECISION, "build", LOGS, MARKER})
RUN_FILES = frozenset({MANIFEST, PLAN, EVIDENCE, ARTIFACTS})
SCHEMA_MARKS = {"report.json": b'"schema":"report-v1"', MANIFEST: b'"schema":"run-v1"'}
"""Files with a schema. They identify run folders that are older than the marker."""
FIX = "give --out a new or empty folder"


@contextlib.contextmanager
def claim_folder(folder: Path) -> Iterator[None]:
    """Hold the run folder. UsageError for foreign files or another writer, CannotCollectError for the disk."""
    refuse_foreign(folder)
    with mark_folder(folder):
        yield


@contextlib.contextmanager
def mark_folder(folder: Path, *, option: str = "--out") -> Iterator[None]:
    """Mark ``folder`` as ours and lock it, with errors as ``claim_folder`` about ``option``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(folder / MARKER, flags, 0o644)
    except OSError as error:
        raise CannotCollectError(f"cannot write to {folder}: {error.strerror}", fix=f"give {option} another folder") from None
    try:
        if not files.is_lock(descriptor):
            raise UsageError(f"{folder / MARKER} was not written by flashcore-ci", fix=f"give {option} another folder")
        _lock(descriptor, folder, option)
        yield
    finally:
        os.close(descriptor)


def refuse_foreign(folder: Path, *, fix: str = FIX) -> None:
    """UsageError when ``folder`` holds what this tool did not write."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder", fix=fix)
    present = {entry.name for entry in folder.iterdir()}
    foreign = sorted(present - RUN_FILES - OUTSIDE_RUN)
    known = {name: mark for name, mark in SCHEMA_MARKS.items() if name in present}
    if not foreign and MARKER not in present and not any(_has_mark(folder / name, mark) for name, mark in known.items()):
        foreign = sorted(present)
    if foreign:
        raise UsageError(f"{folder} is not a run folder: flashcore-ci did not write {foreign[0]}", fix=fix)


def refuse_input(out: Path, *inputs: Path) -> None:
    """UsageError when ``out``, whose reports or all files are removed, is one of the ``inputs``."""
    if any(files.resolve(path) == files.resolve(out) for path in inputs):
        raise UsageError(f"{out} is what this command reads, and it would write there", fix=FIX)


def _has_mark(file: Path, mark: bytes) -> bool:
    """Tell whether the last 4 KiB hold the schema's name."""
    try:
        if not file.is_file():
            return False
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - 4096))
            return mark in stream.read(4096).replace(b" ", b"")
    except OSError:
        return False


def _lock(descriptor: int, folder: Path, option: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", errors="replace").strip() or "unknown"
        fix = f"wait for it, or give {option} another folder"
        raise UsageError(f"another run (process {holder}) writes to {folder}", fix=fix) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
