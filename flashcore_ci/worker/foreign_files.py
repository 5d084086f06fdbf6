"""Code of another copy of the repository: a base that imports head's installed package would be compared with itself."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from flashcore_ci.worker import file_reads
from flashcore_ci.worker.file_reads import is_inside, resolved
from flashcore_ci.worker.job import Job

GATE = resolved(__file__).parents[1]
LIBRARIES = {"site-packages", "dist-packages"}


def redirect(job: Job) -> None:
    """Import what is installed from the repository's folder from the checkout that is measured."""
    repository, root = resolved(str(job.repository or job.root)), resolved(str(job.root))

    def moved(folder: str) -> str:
        path = resolved(folder)
        is_code = folder.startswith("/") and path.is_relative_to(repository) and not _is_exempt(path, job)
        return str(root / path.relative_to(repository)) if is_code else folder

    sys.path[:] = [moved(folder) for folder in sys.path]
    for name, module in tuple(sys.modules.items()):
        mapping = getattr(module, "MAPPING", None)
        if name.startswith("__editable__") and isinstance(mapping, dict):  # setuptools' finder of an installed folder
            mapping.update({package: moved(folder) for package, folder in mapping.items()})


def find(job: Job, loaded: set[str] | None = None) -> str:
    """Return a ``loaded`` file of another copy of the repository, or ""."""
    with file_reads.unrecorded():
        folders, copies = _installed(resolved(str(job.repository or job.root)), resolved(str(job.root)))
    files = {resolved(name) for name in (file_reads.module_files() if loaded is None else loaded)}
    inside = (file for file in files if any(is_inside(file, folder) for folder in folders) and not _is_exempt(file, job))
    return min(map(str, (*inside, *files & copies)), default="")


def find_replaced(job: Job, loaded: set[str]) -> tuple[str, str] | None:
    """Return a ``loaded`` file from elsewhere and the declared one that it takes the place of, if their bytes differ.

    A package may be installed, as the user has it. The digests are of the checkout's files.
    """
    declared = {name: file for file in job.options.get("python") or () for name in _module_names(file)}
    modules = {name: getattr(sys.modules[name], "__file__", None) for name in declared.keys() & sys.modules.keys()}
    with file_reads.unrecorded():
        for name, file in modules.items():
            ours = job.root / declared[name]
            if file in loaded and resolved(file) != resolved(str(ours)) and Path(file).read_bytes() != ours.read_bytes():
                return file, declared[name]
    return None


def _module_names(file: str) -> Iterator[str]:
    """Yield the names by which a file of a package can be imported: ``kernel/flashcore/ops.py`` is ``flashcore.ops``."""
    parts = Path(file).with_suffix("").parts
    parts, fewest = (parts[:-1], 1) if parts[-1] == "__init__" else (parts, 2)
    for count in range(fewest, len(parts) + 1):
        name = ".".join(parts[-count:])
        if name not in sys.stdlib_module_names:
            yield name


def _is_exempt(path: Path, job: Job) -> bool:
    """Tell whether a path is in the measured checkout, the run's folder, the interpreter, a package folder or the gate."""
    folders = (resolved(str(job.root)), resolved(str(job.folder)).parent, resolved(sys.prefix), GATE)
    return bool(LIBRARIES.intersection(path.parts)) or any(is_inside(path, folder) for folder in folders)


@functools.cache
def _installed(repository: Path, root: Path) -> tuple[tuple[Path, ...], frozenset[Path]]:
    """Return the folders that are imported in place, and the files that were copied, of installations of this repository."""
    folders, copies = [repository], set[Path]()
    for package in _packages(repository, root):
        folder, is_editable = _origin(package)
        if is_editable and folder is not None:
            folders.append(folder)
        else:
            copies |= {resolved(str(package.locate_file(file))) for file in package.files or ()}
    return tuple(folders), frozenset(copies)


def _packages(repository: Path, root: Path) -> Iterator[Distribution]:
    for package in importlib.metadata.distributions():
        folder, _ = _origin(package)
        if folder is not None and folder.is_relative_to(repository) and folder != GATE.parent:
            yield package
    try:
        name = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
        if name != "flashcore-ci":
            yield importlib.metadata.distribution(name)
    except (OSError, ValueError, LookupError, TypeError, importlib.metadata.PackageNotFoundError):
        pass


def _origin(package: Distribution) -> tuple[Path | None, bool]:
    """Return the folder that a package was installed from, if any, and whether it is imported from there."""
    try:
        content: Any = json.loads(package.read_text("direct_url.json") or "{}")
        url, details = urlsplit(content.get("url", "")), content.get("dir_info")
        return (
            (resolved(unquote(url.path)), bool(details.get("editable")))
            if url.scheme == "file" and details is not None
            else (None, False)
        )
    except (ValueError, AttributeError, TypeError):
        return None, False
