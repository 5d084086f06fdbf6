"""The CUDA tools: pinned packages in their own folder (torch pins other versions), or the machine's CUDA."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from flashcore_ci.adapters import lock, nvcc, process
from flashcore_ci.bounded import files
from flashcore_ci.build import programs
from flashcore_ci.model.errors import CannotCollectError, EvidenceError
from flashcore_ci.model.identity import digest_of
from flashcore_ci.store import codec
from flashcore_ci.store.files import write_atomically

Progress = Callable[[str], None]
INSTALL_SECONDS = 3600.0
VERSION_SECONDS = 60.0
PINNED, SYSTEM = "pip", "system"
VERSIONS = ("13.0", "13.5")
DEFAULT = VERSIONS[0]
"""The CUDA of recorded evidence. The other is the newest on PyPI."""
_NVCC_PIN = re.compile(r"^nvidia-cuda-nvcc==(\S+)", re.MULTILINE)
DRIVER_FLOORS = {"12": 525, "13": 580}
_MARKER = "toolchain.json"
_CUDA = Path("nvidia/cu13")
_FIX_INSTALL = "flashcore-ci toolchain install"
_FIX_INDEX = "check the network and pip's index settings, then try again"

_PIP_ERRORS = (
    (
        "No module named pip",
        "this Python has no pip",
        "python3 -m ensurepip, or set FLASHCORE_CI_PYTHON to a Python that has pip",
    ),
    ("No space left on device", "the disk is full", "free 400 MB, or set FLASHCORE_CI_HOME to another disk"),
    (
        "DO NOT MATCH THE HASHES",
        "a downloaded file does not match its pinned hash",
        "pip cache purge, then try again. If it fails again, do not trust the package index",
    ),
    (
        "NewConnectionError|Failed to establish|ConnectTimeout|ReadTimeout|name resolution|Max retries",
        "the package index cannot be reached",
        _FIX_INDEX,
    ),
    (r"\(from versions: none\)", "the package index is unreachable or lacks the pinned packages", _FIX_INDEX),
    (
        "No matching distribution",
        "the package index does not have the pinned versions",
        "check pip's index settings. The tools exist for Linux on x86_64 and aarch64 only",
    ),
)
"""Pattern in pip's output, message, fix. The first match counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Paths of the tools, and a digest of their bytes. ``lib`` holds the static CUDA runtime."""

    nvcc: Path
    nvdisasm: Path
    sanitizer: Path | None
    lib: Path
    version: str
    sanitizer_version: str
    digest: str

    @property
    def top(self) -> Path:
        """The folder of all CUDA tools."""
        return self.nvcc.resolve().parents[1]

    @property
    def includes(self) -> tuple[str, ...]:
        """The folders of its headers, in the order in which nvcc searches them."""
        folders = (self.top / "include", *sorted(self.top.glob("targets/*/include")))
        return tuple(dict.fromkeys(str((path / part).resolve()) for part in (".", "cccl") for path in folders))

    @property
    def compiler(self) -> str:
        """The compiler's name in evidence."""
        return f"nvcc {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolVersions:
    """The versions that the installed tools printed, written last."""

    nvcc: str
    sanitizer: str
    schema: Literal["toolchain-v1"] = "toolchain-v1"


def version_of(choice: str) -> str:
    """Return the CUDA that a choice of pinned tools means. ``pip`` is the default."""
    return DEFAULT if choice == PINNED else choice


def version_with(compilers: Collection[str]) -> str:
    """Return the CUDA whose pins include one of these compilers, as evidence names them, or else the default."""
    pins = {version: _NVCC_PIN.search(lock_text(version)) for version in VERSIONS}
    return next((version for version, pin in pins.items() if pin and f"nvcc {pin[1]}" in compilers), DEFAULT)


def lock_text(version: str = DEFAULT) -> str:
    """Return the pins of this CUDA, as pip reads them."""
    return resources.files(__package__).joinpath(f"toolchain-{version}.lock").read_text(encoding="utf-8")


def lock_digest(version: str = DEFAULT) -> str:
    """Return the SHA-256 of the pins and their comments in hex."""
    return hashlib.sha256(lock_text(version).encode("utf-8")).hexdigest()


def find(home: Path, version: str = DEFAULT) -> Toolchain | None:
    """Find the pinned tools under ``home``, if wholly installed. CannotCollectError if their bytes are not the pinned ones."""
    folder = _folder(home, version)
    try:
        installed = codec.decode(ToolVersions, files.read(folder / _MARKER, limit=files.MAX_RECORD), where=str(folder / _MARKER))
    except (OSError, EvidenceError):
        return None
    cuda = folder / _CUDA
    digest = digest_of("pinned", lock_digest(version), programs.check_programs(cuda, programs.pinned_programs(version)))
    return _toolchain(cuda / "bin/nvcc", cuda / "bin/compute-sanitizer", cuda / "lib", installed, digest)


def find_system() -> Toolchain | None:
    """Find the machine's CUDA: on PATH, else in /usr/local/cuda. CannotCollectError if it is incomplete."""
    found = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if found is None:
        return None
    compiler = Path(found).resolve()
    top = compiler.parent.parent
    lib = next((path for path in (top / "lib64", top / "lib") if (path / "libcudart_static.a").is_file()), None)
    if lib is None or not (compiler.parent / "nvdisasm").is_file():
        part = "libcudart_static.a" if lib is None else "nvdisasm"
        raise CannotCollectError(f"the CUDA in {top} has no {part}", fix=_FIX_INSTALL)
    sanitizer = compiler.parent / "compute-sanitizer"
    checker = sanitizer if sanitizer.is_file() else None
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as logs:
        versions = _query_versions(compiler, checker, logs=Path(logs))
    digest = digest_of("system", str(top), versions.nvcc, programs.check_programs(top, {}))
    return _toolchain(compiler, checker, lib, versions, digest)


def _toolchain(compiler: Path, sanitizer: Path | None, lib: Path, versions: ToolVersions, digest: str) -> Toolchain:
    return Toolchain(
        nvcc=compiler,
        nvdisasm=compiler.parent / "nvdisasm",
        sanitizer=sanitizer,
        lib=lib,
        version=versions.nvcc,
        sanitizer_version=versions.sanitizer,
        digest=digest,
    )


def install(home: Path, python: str, progress: Progress, version: str = DEFAULT) -> Toolchain:
    """Install the pinned tools with ``python -m pip``, unless they are there. A second caller waits for the first."""
    if (present := find(home, version)) is not None:
        return present
    folder = _folder(home, version)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with lock.hold(folder.parent / ".lock", timeout=INSTALL_SECONDS, waiting=progress, what="the toolchain's folder"):
            return find(home, version) or _install(home, version, python, progress)
    except OSError as error:
        fix = "free disk space, or set FLASHCORE_CI_HOME to a writable folder"
        raise CannotCollectError(f"cannot install the toolchain in {folder}: {error.strerror or error}", fix=fix) from None


def pip_argv(python: str, *, pins: Path, target: Path) -> tuple[str, ...]:
    """Install exactly what ``pins`` lists, with checked hashes."""
    exact = ("--require-hashes", "--no-deps", "--only-binary=:all:", "--no-compile")
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check", "--no-warn-script-location")
    return (python, "-m", "pip", "install", *quiet, *exact, "--target", str(target), "--requirement", str(pins))


def explain_pip_failure(output: str) -> tuple[str, str]:
    """Return the cause in pip's output, and a fix."""
    for pattern, message, fix in _PIP_ERRORS:
        if re.search(pattern, output):
            return message, fix
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    last = (errors or output.strip().splitlines() or ["no output"])[-1]
    return f"pip failed: {last}", "fix what pip reports, then try again"


def driver_floor(version: str) -> int:
    """Return the first driver branch that runs programs built with this CUDA, as in ``13.0.88``.

    Source: CUDA compatibility guide, "Minor Version Compatibility". Machine code of a later minor version runs too.
    """
    return DRIVER_FLOORS.get(version.partition(".")[0], max(DRIVER_FLOORS.values()))


def _folder(home: Path, version: str) -> Path:
    return home / "toolchains" / lock_digest(version)[:12]


def _install(home: Path, version: str, python: str, progress: Progress) -> Toolchain:
    folder = _folder(home, version)
    for stale in (folder, *folder.parent.glob(".new-*")):
        shutil.rmtree(stale, ignore_errors=True)
    progress("installing the CUDA tools (about 330 MB on disk, once)")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-", ignore_cleanup_errors=True) as name:
        work = Path(name)
        pins, target = work / "toolchain.lock", work / "root"
        pins.write_text(lock_text(version), encoding="utf-8")
        completed = process.run(pip_argv(python, pins=pins, target=target), logs=work, name="pip", timeout=INSTALL_SECONDS)
        if completed.returncode != 0 or completed.timed_out:
            message, fix = explain_pip_failure(completed.text() + completed.error_text())
            late = f"not done after {INSTALL_SECONDS:.0f} s, " if completed.timed_out else ""
            raise CannotCollectError(f"cannot install the toolchain: {late}{message}", fix=fix)
        cuda = target / _CUDA
        installed = _query_versions(cuda / "bin/nvcc", cuda / "bin/compute-sanitizer", logs=work)
        write_atomically(target / _MARKER, codec.encode(installed))
        target.rename(folder)
    toolchain = find(home, version)
    if toolchain is None:
        raise CannotCollectError(f"the toolchain in {folder} was changed while it was installed", fix=_FIX_INSTALL)
    return toolchain


def _query_versions(compiler: Path, sanitizer: Path | None, *, logs: Path) -> ToolVersions:
    answer = process.run(nvcc.version_argv(compiler), logs=logs, name="nvcc", timeout=VERSION_SECONDS)
    version = nvcc.parse_version(answer.text())
    checker = ""
    if sanitizer is not None:
        answer = process.run((sanitizer, "--version"), logs=logs, name="sanitizer", timeout=VERSION_SECONDS)
        found = re.search(r"^Version (\S+)", answer.text(), re.MULTILINE)
        checker = found[1] if found else ""
    for tool, found_version in ((compiler, version), (sanitizer, checker)):
        if tool is not None and not found_version:
            raise CannotCollectError(f"{tool} does not print its version", fix=_FIX_INSTALL)
    return ToolVersions(nvcc=version, sanitizer=checker)
