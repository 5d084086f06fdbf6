"""The run folder: all that judging needs, each file with its digest.

::

    manifest.json    size and SHA-256 of each file below
    plan.json        the checks
    evidence.json    the measurements, with place, time and tools
    artifacts/       the tools' own files

Reports, ``build`` and ``logs`` (jobs, results and output of processes) may be there too. They are not part of the run.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flashcore_ci.bounded import files
from flashcore_ci.bounded.files import MAX_RECORD
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, UsageError
from flashcore_ci.model.evidence import Evidence
from flashcore_ci.model.plan import Plan
from flashcore_ci.store import bundle, legacy
from flashcore_ci.store.claim import FIX, LOGS, MARKER, OUTSIDE_RUN, REPORTS, RUN_FILES, refuse_foreign
from flashcore_ci.store.codec import decode, encode
from flashcore_ci.store.files import write_atomically, write_new
from flashcore_ci.store.manifest import (
    ARTIFACTS,
    EVIDENCE,
    MANIFEST,
    MAX_BYTES,
    MAX_FILES,
    PLAN,
    Manifest,
    manifest_of,
    refuse_name,
    verify_files,
)

MAX_DEPTH = 8
"""Folders in folders of ``artifacts``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as read back, with the tools' own ``files``. ``is_v1``: its evidence is of the first schema. ``plan_digest``: SHA-256."""

    plan: Plan
    evidence: Evidence
    is_v1: bool = False
    plan_digest: str = field(default="", compare=False)
    files: Mapping[str, bytes] = field(default_factory=dict)


def prepare_run(path: Path, plan: Plan) -> None:
    """Make ``path`` an empty run folder. UsageError for foreign files, which are never deleted."""
    refuse_foreign(path)
    _refuse_unlisted(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / MARKER).touch()
        for name in (MANIFEST, EVIDENCE, *REPORTS):
            (path / name).unlink(missing_ok=True)
        for name in (ARTIFACTS, LOGS):
            if (path / name).exists():
                shutil.rmtree(path / name)
        (path / ARTIFACTS).mkdir()
    except OSError as error:
        raise CannotCollectError(f"cannot prepare {path}: {error.strerror}", fix="give --out another folder") from None
    write_atomically(path / PLAN, encode_plan(plan))


def _refuse_unlisted(path: Path) -> None:
    unlisted = [name for name in (ARTIFACTS, LOGS) if (path / name).is_symlink()]
    listed: set[str] | None = None
    with contextlib.suppress(EvidenceError):  # an interrupted run has no manifest, or a damaged one
        listed = {member.path for member in decode(Manifest, _read(path, MANIFEST, MAX_RECORD), where=MANIFEST).files}
    if listed is not None and not unlisted:
        try:
            unlisted = sorted(_files(path) - listed - RUN_FILES)
        except EvidenceError as error:  # a link
            raise UsageError(str(error), fix=FIX) from None
    if unlisted:
        raise UsageError(f"{path} is not a run folder: flashcore-ci did not write {unlisted[0]}", fix=FIX)


def write_run(path: Path, plan: Plan, evidence: Evidence) -> None:
    """Write plan, evidence, and last the manifest: without it there is no run.

    CannotCollectError if the disk refuses, EvidenceError for links and devices.
    """
    with contextlib.suppress(FileNotFoundError):
        (path / MANIFEST).unlink()
    write_atomically(path / PLAN, encode_plan(plan))
    write_atomically(path / EVIDENCE, encode(evidence))
    names = sorted(_files(path))
    for name in names:
        refuse_name(name, where=str(path))
    write_atomically(path / MANIFEST, encode(manifest_of(_contents(path, names))))


def read_run(path: Path, verified: Callable[[dict[str, bytes]], object] | None = None) -> Run:
    """Read a run folder or bundle. EvidenceError if any byte was altered. ``verified`` gets the files before records are decoded."""
    return read_whole(path, verified)[0]


def read_whole(path: Path, verified: Callable[[dict[str, bytes]], object] | None = None) -> tuple[Run, dict[str, bytes]]:
    """Do as ``read_run``, and return every file of the same run too."""
    where = str(path)
    if path.is_dir():
        names = _files(path)
        for name in sorted({entry.name for entry in path.iterdir()} - RUN_FILES - OUTSIDE_RUN):
            raise EvidenceError(f"{where}: {name} is not in the manifest", fix="remove the files that are not of this run")
        manifest, read = _read(path, MANIFEST, MAX_RECORD), _reader(path)
    else:
        packed = bundle.unpack(path)
        manifest, names, read = packed.pop(MANIFEST, b""), set(packed), packed.__getitem__
        if not manifest:
            raise EvidenceError(f"{where}: it holds no {MANIFEST}", fix="give a run folder, or a file from `flashcore-ci pack`")
    content = verify_files(manifest, names, read, where=where)
    files = {name: data for name, data in content.items() if name not in RUN_FILES}
    if verified is not None:
        verified(files)
    is_v1 = legacy.is_v1(content[EVIDENCE])
    at = f"{where}/{EVIDENCE}"
    plan, digest = _plan(content[PLAN], where=f"{where}/{PLAN}")
    run = Run(
        plan=plan,
        plan_digest=digest,
        evidence=legacy.decode_v1(content[EVIDENCE], plan, where=at) if is_v1 else decode(Evidence, content[EVIDENCE], where=at),
        is_v1=is_v1,
        files=files,
    )
    return run, {MANIFEST: manifest, **content}


def decode_plan(data: bytes, *, where: str) -> Plan:
    """Decode a plan. To write it again costs nothing. EvidenceError if it is damaged."""
    return _plan(data, where=where)[0]


def _plan(data: bytes, *, where: str) -> tuple[Plan, str]:
    """Decode and digest a plan once for all shards of it."""
    for known, plan, digest in tuple(_plans_read):
        if known == data:
            _plans_written[:] = [(plan, data)]
            return plan, digest
    digest = hashlib.sha256(data).hexdigest()
    plan = next((plan for plan, known in tuple(_plans_written) if known == data), None) or decode(Plan, data, where=where)
    _plans_read[:], _plans_written[:] = [(data, plan, digest)], [(plan, data)]
    return plan, digest


_plans_read: list[tuple[bytes, Plan, str]] = []
_plans_written: list[tuple[Plan, bytes]] = []
"""The last plan. It is written before the measurements and with them, and ``merge`` writes what it read: to encode it takes 0.2 s."""


def encode_plan(plan: Plan) -> bytes:
    """Encode a plan once for all that write or digest it."""
    found = next((data for known, data in tuple(_plans_written) if known is plan), None) or encode(plan)
    _plans_written[:] = [(plan, found)]
    return found


def tool_files(path: Path) -> dict[str, bytes]:
    """Read the tools' own files by name."""
    return dict(_contents(path, sorted(_files(path) - RUN_FILES)))


def files_of(path: Path) -> dict[str, bytes]:
    """Read every file of a run. EvidenceError as ``read_run``."""
    if not path.is_dir():
        return bundle.unpack(path)
    return dict(_contents(path, (MANIFEST, *sorted(_files(path)))))


def pack(run: Path, file: Path) -> None:
    """Pack the run reproducibly. EvidenceError if it is not whole, UsageError if ``file`` is another."""
    if run.is_dir() and files.resolve(file).is_relative_to(files.resolve(run)):
        raise UsageError(f"{file} is inside the run, which holds no other files", fix="give a file outside of it")
    read_run(run)
    data = bundle.pack_files(files_of(run))
    if not write_new(file, data) and not holds(file, data):
        raise UsageError(f"{file} exists and is not this run", fix="give another file name, or remove this file")


def holds(file: Path, data: bytes) -> bool:
    """Tell whether a plain file holds exactly ``data``."""
    try:
        return files.read(file, limit=len(data)) == data
    except OSError:
        return False


def _files(path: Path) -> set[str]:
    roots = [path / name for name in (PLAN, EVIDENCE, ARTIFACTS)]
    try:
        found = list(itertools.islice((file for root in roots for file in _walk(root)), MAX_FILES + 1))
    except OSError as error:
        raise EvidenceError(f"cannot read {path}: {error.strerror}", fix="give a readable run folder") from None
    if len(found) > MAX_FILES:
        raise EvidenceError(f"{path} holds more than {MAX_FILES} files", fix="collect again")
    return {file.relative_to(path).as_posix() for file in found}


def _walk(root: Path, depth: int = 0) -> Iterator[Path]:
    try:
        mode = root.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode) and depth < MAX_DEPTH:
        for entry in sorted(itertools.islice(root.iterdir(), MAX_FILES + 1)):
            yield from _walk(entry, depth + 1)
    elif stat.S_ISREG(mode):
        yield root
    else:
        message = f"{root} is neither a file nor a folder of a run"
        raise EvidenceError(message, fix="remove links, devices and deep folders from the run folder")


def _contents(path: Path, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    read = _reader(path)
    return ((name, read(name)) for name in names)


def _reader(path: Path) -> Callable[[str], bytes]:
    """Return a reader of files that hold ``MAX_BYTES`` together."""
    left = MAX_BYTES

    def read(name: str) -> bytes:
        nonlocal left
        data = _read(path, name, left)
        left -= len(data)
        return data

    return read


def _read(path: Path, name: str, limit: int) -> bytes:
    try:
        return files.read(path / name, limit=limit, follow=False)
    except OSError as error:
        fix = "give a complete run folder, or collect again"
        raise EvidenceError(f"{path}: cannot read {name}: {error.strerror}", fix=fix) from None
