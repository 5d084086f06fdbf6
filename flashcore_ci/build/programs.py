"""The toolchain's programs, byte by byte: hashed before every use, and compared with those of the pinned packages."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path

from flashcore_ci.adapters.files import sha256
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.identity import digest_of

THREADS = 4  # 250 MB take 0.4 s then, on two cores
_GLOBS = ("nvvm/**/*", "compute-sanitizer/**/*", "lib*/libcuda*rt*.a")
_COMPILER = ("bin/*nvcc*", "bin/crt/*", "bin/cudafe++", "bin/ptxas", "bin/fatbinary", "bin/nvlink", "bin/nvdisasm", "bin/bin2c")
"""The machine's own CUDA has gigabytes of other tools in ``bin``."""
_EXCLUDED = ("compute-sanitizer/docs", "compute-sanitizer/include")


def pinned_programs(version: str) -> dict[str, str]:
    """Return the SHA-256 of every program of this CUDA's pinned packages, or {} for a machine that they are not known for."""
    file = resources.files(__package__).joinpath(f"toolchain-{version}-{platform.machine()}.sha256")
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def hash_programs(top: Path, *, whole: bool) -> dict[str, str]:
    """Return the SHA-256 of each program in the CUDA folder ``top``, or of the compiler's. No date or size is trusted."""
    files = {path for pattern in (*_GLOBS, *(("bin/**/*",) if whole else _COMPILER)) for path in top.glob(pattern)}
    excluded = [top / folder for folder in _EXCLUDED]
    programs = sorted(path for path in files if path.is_file() and not any(path.is_relative_to(folder) for folder in excluded))
    with ThreadPoolExecutor(THREADS) as pool:
        digests = pool.map(sha256, programs)
    return {path.relative_to(top).as_posix(): digest for path, digest in zip(programs, digests, strict=True)}


def check_programs(top: Path, pinned: Mapping[str, str]) -> str:
    """Digest the programs in ``top``. CannotCollectError unless they are the ``pinned`` ones, if there are such."""
    found = hash_programs(top, whole=bool(pinned))
    differing = sorted(name for name in {*found, *pinned} if pinned and found.get(name) != pinned.get(name))
    if differing:
        name = differing[0]
        change = (
            "is missing" if name not in found else "is not part of the pinned CUDA tools" if name not in pinned else "was changed"
        )
        raise CannotCollectError(f"{top / name} {change}", fix=f"rm -r {top.parents[1]}, then flashcore-ci toolchain install")
    return digest_of("programs", found)
