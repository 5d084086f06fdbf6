"""What stands for the machine code of a subject that is compiled when it runs: sources, lock files and versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from flashcore_ci.bounded import files
from flashcore_ci.build.python_imports import Closure, closure
from flashcore_ci.build.sources import Sources
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.model.identity import FILE, UNKNOWN_VERSION, digest_of
from flashcore_ci.model.subject import Description

LOCKS = (
    "Pipfile",
    "environment*.y*ml",
    "setup.py",
    "setup.cfg",
    "uv.toml",
    "pylock*.toml",
    "*.lock",
    "requirements*.txt",
    "constraints*.txt",
    "requirements/*.txt",
)
Versions = Callable[[Sequence[str]], Mapping[str, str]]
"""Return the versions of installed modules."""


def bind(
    descriptions: Sequence[Description], builds: Sequence[BuildEvidence], *, root: Path, versions: Versions
) -> tuple[BuildEvidence, ...]:
    """Give each build without machine code its dependencies."""
    without = {description.subject: description for description in descriptions if description.build is None}
    if not without:
        return tuple(builds)
    sources = Sources(root)
    found = {name: closure((one.file, *one.candidate), sources) for name, one in without.items()}
    wanted = sorted({module for one in found.values() for module in _modules(one)})
    installed = versions(wanted)
    return tuple(_bound(build, found[build.subject], installed, root) if build.subject in found else build for build in builds)


def _modules(found: Closure) -> tuple[str, ...]:
    """``torch.compile`` makes Triton kernels."""
    return tuple(sorted({*found.modules, *(("triton",) if found.compiles else ())}))


def _lock_files(found: Closure, root: Path) -> dict[str, bytes]:
    """Read the lock files in the repository's root, and next to each file of the subject."""
    folders = dict.fromkeys((root, *((root / file).parent for file in found.files)))
    paths = (path for folder in folders for pattern in LOCKS for path in sorted(folder.glob(pattern)))
    return {path.relative_to(root).as_posix(): _read(path) for path in paths}


def _bound(build: BuildEvidence, found: Closure, installed: Mapping[str, str], root: Path) -> BuildEvidence:
    locks = _lock_files(found, root)
    names = dict.fromkeys((*found.files, *locks))
    digests = tuple((f"{FILE}{name}", _digest(root / name)) for name in names)
    known = ((name, installed.get(name) or _locked(name, locks)) for name in _modules(found))
    dependencies = (*digests, *((name, version.partition("+")[0]) for name, version in known))
    return replace(build, dependencies=dependencies, binding=digest_of("dependencies", dependencies))


def _locked(module: str, locks: Mapping[str, bytes]) -> str:
    """Return the version that the lock files name for a module that is not installed here."""
    name = re.escape(module.replace("_", "-"))
    pattern = re.compile(rf'^(?:{name}==([\w.]+)|name = "{name}"\nversion = "([\w.+]+)")', re.MULTILINE | re.IGNORECASE)
    found = {match[1] or match[2] for text in locks.values() for match in pattern.finditer(text.decode("utf-8", "replace"))}
    return found.pop() if len(found) == 1 else UNKNOWN_VERSION


def _digest(path: Path) -> str:
    try:
        return files.sha256(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _read(path: Path) -> bytes:
    try:
        return files.read(path, limit=files.MAX_SOURCE)
    except OSError:
        return b""
