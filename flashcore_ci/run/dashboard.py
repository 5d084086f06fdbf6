"""Use cases of the dashboard: write the static site, and the weekly digest."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from flashcore_ci.adapters import clock
from flashcore_ci.dashboard import digest, site
from flashcore_ci.history import address, database
from flashcore_ci.model.dashboard import Snapshot
from flashcore_ci.model.errors import CannotCollectError, UsageError
from flashcore_ci.run import dashboard_alerts, dashboard_source
from flashcore_ci.store.claim import FIX, MARKER, mark_folder

OURS = re.compile(
    r"(index|versions|compare|machines|cost|gate)\.html|assets/[\w.]+|w/[0-9a-f]{12}\.html"
    r"|data/(runs|series/[0-9a-f]{12}|run/[0-9a-f]{12})\.json|([\w/]+/)?\.[\w.]+\.part"
)
"""Every path that a site can have. A folder with any other was not written by this command."""


def read(db: str, environ: Mapping[str, str], suite: Path) -> Snapshot:
    """Read what the pages show. The alerts are files next to the suite."""
    alerts = dashboard_alerts.files(suite)
    with database.reading(address.parse(db, environ)) as connection:
        return dashboard_source.read(connection, int(clock.wall()), alerts)


def build(db: str, environ: Mapping[str, str], suite: Path, out: Path) -> dict[str, int]:
    """Write the site. UsageError if ``out`` holds what this command did not write. Return how many files and bytes."""
    refuse_foreign(out)
    files = site.files(read(db, environ, suite))
    with mark_folder(out):
        refuse_foreign(out)  # the pages took time, and what is removed below must be a page
        present = set(_paths(out))
        for path, content in sorted(files.items(), key=lambda pair: pair[0].endswith(".html")):  # pages after their data
            _write(out / path, content)
        for path in present - files.keys():
            (out / path).unlink()
    return {"files": len(files), "bytes": sum(map(len, files.values()))}


def refuse_foreign(out: Path) -> None:
    """UsageError when the folder holds a file that is not of a site, or no marker. Links are foreign too."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise UsageError(f"{out} is not a folder", fix=FIX)
    if not out.exists():
        return
    paths = list(_paths(out))
    foreign = [path for path in paths if not OURS.fullmatch(path) or (out / path).is_symlink()]
    if not foreign and paths and not (out / MARKER).is_file():
        foreign = paths
    if foreign:
        raise UsageError(f"{out} is not a dashboard: `dashboard build` did not write {min(foreign)}", fix=FIX)


def _write(path: Path, content: bytes) -> None:
    """Write a file that a reader sees whole. A site can be made again, so nothing waits for the disk."""
    partial = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)  # it may be another name of a foreign file
        with partial.open("xb") as stream:
            stream.write(content)
        partial.replace(path)
    except OSError as error:
        raise CannotCollectError(
            f"cannot write {path}: {error.strerror}", fix="free disk space, or give another folder"
        ) from None


def _paths(out: Path) -> Iterator[str]:
    """Yield the path of every file but the marker. A link to a folder is one path."""
    try:
        for folder, names, files in os.walk(out, onerror=_raise):
            links = [name for name in names if (Path(folder) / name).is_symlink()]
            for name in (*links, *files):
                path = (Path(folder) / name).relative_to(out).as_posix()
                if path != MARKER:
                    yield path
    except OSError as error:
        raise CannotCollectError(f"cannot read {out}: {error.strerror}", fix=FIX) from None


def _raise(error: OSError) -> None:
    raise error


def weekly(db: str, environ: Mapping[str, str], suite: Path, days: int) -> str:
    """Return the digest of the last ``days`` days."""
    return digest.render(read(db, environ, suite), days)
