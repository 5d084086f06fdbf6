"""The host compiler that nvcc calls, and why a compiler or linker failed."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.adapters import process
from flashcore_ci.adapters.files import sha256
from flashcore_ci.build.cache import Cache
from flashcore_ci.build.external import ExternalLibrary
from flashcore_ci.build.sources import Sources
from flashcore_ci.build.system_files import SystemFiles
from flashcore_ci.build.toolchain import Toolchain
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError
from flashcore_ci.model.evidence import CompileError
from flashcore_ci.model.identity import digest_of

COMPILE_SECONDS = 300.0
ASK_SECONDS = 30.0
_PROGRAMS = ("cc1plus", "as", "collect2", "ld")
_SEARCH_LIST = re.compile(r"^#include <\.\.\.> search starts here:\n(.*?)^End of search list", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCompiler:
    """The g++ on PATH. ``identity`` is a digest of its programs' bytes, ``includes`` are the folders of its headers."""

    folder: str
    identity: str
    includes: tuple[str, ...]

    @property
    def environment(self) -> dict[str, str]:
        """The only variables that the compiler sees. NVCC_APPEND_FLAGS would change what is built."""
        return {"PATH": f"{self.folder}:/usr/bin:/bin", "LC_ALL": "C"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """What every step of a build needs."""

    sources: Sources
    toolchain: Toolchain
    host: HostCompiler
    system: SystemFiles
    cache: Cache
    out: Path
    libraries: Mapping[str, ExternalLibrary]


def find_host_compiler() -> HostCompiler:
    """Find g++ on PATH. CannotCollectError if there is none."""
    found = shutil.which("g++")
    if found is None:
        raise CannotCollectError("nvcc needs g++, which is not on PATH", fix="apt-get install g++")
    folder = str(Path(found).parent)
    path = f"{folder}:/usr/bin:/bin"
    driver = shutil.which("gcc", path=path) or found  # nvcc compiles with this one, and links with g++
    with tempfile.TemporaryDirectory(prefix="flashcore-ci-") as logs:
        listed = _SEARCH_LIST.search(_ask(driver, ("-E", "-v", "-x", "c++", os.devnull), path, Path(logs)))
        programs = [_ask(driver, (f"-print-prog-name={name}",), path, Path(logs)).strip() for name in _PROGRAMS]
    includes = tuple(str(Path(line.strip()).resolve()) for line in listed[1].splitlines()) if listed else ()
    files = [shutil.which(program, path=path) for program in (found, driver, *programs)]
    if not includes or None in files:
        raise CannotCollectError(f"{driver} does not name its programs and headers", fix="apt-get install g++")
    digests = [sha256(Path(file)) for file in files if file]
    return HostCompiler(folder=folder, identity=digest_of("host compiler", found, includes, digests), includes=includes)


def _ask(compiler: str, options: tuple[str, ...], path: str, logs: Path) -> str:
    environment = {"PATH": path, "LC_ALL": "C"}
    completed = process.run((compiler, *options), logs=logs, name="gcc", timeout=ASK_SECONDS, env=environment)
    return completed.text() + completed.error_text()


def diagnose_failure(completed: process.Completed, output: str, error: CompileError | None, file: str) -> CompileError | None:
    """Return why a compiler or linker failed, if it did. ``error`` is the one in its output.

    InterruptedRunError if the tool was told to stop, CannotCollectError for a full disk or too little memory.
    """
    if completed.returncode == 0 and not completed.timed_out:
        return None
    if process.stopping():
        raise InterruptedRunError("the run was stopped")
    if completed.timed_out:
        return CompileError(file=file, line=0, message=f"the compiler did not finish within {COMPILE_SECONDS:.0f} s")
    if "No space left on device" in output:
        fix = "free disk space, or set FLASHCORE_CI_HOME to another disk"
        raise CannotCollectError(f"the disk is full, so {file} was not compiled", fix=fix)
    if completed.signal_name == "SIGKILL" or "died due to signal 9" in output or "Killed signal terminated" in output:
        raise CannotCollectError(f"the compiler of {file} was killed", fix="build with fewer --jobs, or free memory")
    if error is None:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        exit_text = completed.signal_name or f"exit status {completed.returncode}"
        error = CompileError(file=file, line=0, message=lines[-1] if lines else f"the compiler ended with {exit_text}")
    return error if error.file else replace(error, file=file)
