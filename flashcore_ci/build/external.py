"""The libraries that a subject may use: found on this machine, and known by the bytes of their headers and objects."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.adapters import process
from flashcore_ci.adapters.files import sha256
from flashcore_ci.build.programs import THREADS
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.identity import digest_of

SECONDS = 60.0
_PATHS = "import json, sys; print(json.dumps(sys.path))"
_OBJECT_FOLDERS = ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where a library may be below a folder of Python packages, its headers, and its objects: those to link come first."""

    package: str
    headers: tuple[str, ...]
    first: str
    objects: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


LAYOUTS = {
    "cublas": Layout(
        package="nvidia-cublas",
        headers=("cublas*.h",),
        first="cublas_v2.h",
        objects=("libcublas.so.[0-9]*", "libcublasLt.so.[0-9]*"),
        places=("nvidia/cu13", "nvidia/cublas"),
    ),
    "cudnn": Layout(
        package="nvidia-cudnn-cu13",
        headers=("cudnn*.h",),
        first="cudnn.h",
        objects=("libcudnn.so.[0-9]*", "libcudnn_*.so.[0-9]*"),
        places=("nvidia/cudnn",),
    ),
    "cutlass": Layout(
        package="nvidia-cutlass", headers=("cutlass", "cute"), first="cutlass/cutlass.h", places=("cutlass_library/source",)
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalLibrary:
    """A library here. ``headers`` has links to its headers alone, ``folder`` has them with others. ``objects`` are linked."""

    name: str
    headers: str
    folder: str
    objects: tuple[str, ...]
    digest: str


def find(
    names: Sequence[str], *, python: Path | None, prefix: Path | None, cuda: Path | None, cache: Path
) -> dict[str, ExternalLibrary]:
    """Find these libraries: in ``prefix``, then the packages of ``python``, then ``cuda``. CannotCollectError if one is absent."""
    if not names:
        return {}
    packages = _package_folders(python) if python is not None else ()
    first, last = (() if folder is None else (folder,) for folder in (prefix, cuda))
    tops = {name: [*first, *(folder / place for folder in packages for place in LAYOUTS[name].places), *last] for name in names}
    return {name: _find(name, LAYOUTS[name], tops[name], cache) for name in names}


def _find(name: str, layout: Layout, tops: Iterable[Path], cache: Path) -> ExternalLibrary:
    for top in tops:
        if (top / "include" / layout.first).is_file():
            objects = [tuple(_objects(top, pattern)) for pattern in layout.objects]
            if all(objects):
                return _known(name, layout, top.resolve() / "include", objects, cache)
    fix = f"install {layout.package} for the interpreter of FLASHCORE_CI_PYTHON, or name its folder in FLASHCORE_CI_LIBRARIES"
    raise CannotCollectError(f"the library {name} is not on this machine", fix=fix)


def _objects(top: Path, pattern: str) -> Iterable[Path]:
    """Yield each object once. Some systems have a second link with the whole version."""
    found = sorted(path for folder in _OBJECT_FOLDERS for path in (top / folder).glob(pattern))
    return {path.resolve(): path for path in reversed(found)}.values()


def _known(name: str, layout: Layout, include: Path, objects: Sequence[Sequence[Path]], cache: Path) -> ExternalLibrary:
    links = {path.name: str(path) for pattern in layout.headers for path in sorted(include.glob(pattern))}
    parts = [Path(path) for path in links.values()]
    headers = [file for part in parts for file in (sorted(part.rglob("*")) if part.is_dir() else [part]) if file.is_file()]
    files = [*headers, *(path for group in objects for path in group)]
    with ThreadPoolExecutor(THREADS) as pool:
        digests = list(pool.map(sha256, files))
    names = [file.relative_to(include).as_posix() for file in headers] + [file.name for file in files[len(headers) :]]
    linked = objects if name == "cublas" else objects[:1]
    digest = digest_of("library", name, list(zip(names, digests, strict=True)))
    folder = _link_headers(cache / "libraries" / digest[:16], links)
    return ExternalLibrary(
        name=name,
        headers=str(folder),
        folder=str(include),
        objects=tuple(str(group[0].resolve()) for group in linked),
        digest=digest,
    )


def _link_headers(folder: Path, links: Mapping[str, str]) -> Path:
    """Link the headers into a folder of their own. The packages keep those of other versions of CUDA next to them."""
    try:
        if folder.is_dir() and {path.name: str(path.readlink()) for path in folder.iterdir()} == links:
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent))
        for name, target in links.items():
            (made / name).symlink_to(target)
        if folder.exists():
            folder.rename(made.with_suffix(".old"))
        made.rename(folder)
    except OSError as error:
        fix = "free disk space, or set FLASHCORE_CI_HOME to a writable folder"
        raise CannotCollectError(f"cannot write to {folder}: {error.strerror or error}", fix=fix) from None
    return folder


def _package_folders(python: Path) -> tuple[Path, ...]:
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as logs:
        printed = process.run((python, "-P", "-c", _PATHS), logs=Path(logs), name="packages", timeout=SECONDS, cwd=Path(logs))
        try:
            return tuple(Path(folder) for folder in json.loads(printed.text()) if Path(folder).is_absolute())
        except ValueError:
            raise CannotCollectError(f"{python} does not list its packages", fix="flashcore-ci doctor") from None
