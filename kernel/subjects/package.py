"""Load a library by the checkout's package, or by the installed one.

With ``FLASHCORE_INSTALLED=1`` a subject imports ``flashcore`` as a user does, from the wheel, and uses the wheel's own library. The digests of
the evidence cover the checkout's sources and the built library. So the worker refuses installed Python files that differ from the checkout's,
and ``load`` refuses a library that is not the built one.
"""

from __future__ import annotations

import os
import pathlib
import struct
import sys

SETTING = "FLASHCORE_INSTALLED"
HEADERS, SECTIONS = 0x28, 0x3A  # offsets in an ELF file: where its section headers begin, their size and number
VERSIONS = (0x6FFFFFFE, 0x6FFFFFFF)  # kinds of sections: symbol versions that are needed, and that of each symbol
FIX = "build the wheel from this build, and install it again"


def load(kernel: pathlib.Path, library: pathlib.Path) -> None:
    """Use this library. ``kernel`` is the folder of the checkout's package."""
    if os.environ.get(SETTING, "0") == "0" and str(kernel) not in sys.path:
        sys.path.insert(0, str(kernel))
    import flashcore

    if os.environ.get(SETTING, "0") != "0":
        library = find_installed(pathlib.Path(flashcore.__file__).parent, kernel, library)
    flashcore.load(library)


def find_installed(package: pathlib.Path, kernel: pathlib.Path, library: pathlib.Path) -> pathlib.Path:
    """Return the library of the installed package. RuntimeError unless it is the built one."""
    if package.resolve().is_relative_to(kernel.resolve()):
        raise RuntimeError(f"{SETTING}: flashcore was imported from the checkout. fix: take {kernel} off PYTHONPATH")
    found = package / library.name
    if not found.is_file():
        raise RuntimeError(f"{SETTING}: {package} has no {library.name}. fix: {FIX}")
    if drop_versions(found.read_bytes()) != drop_versions(library.read_bytes()):
        raise RuntimeError(f"{SETTING}: {found} is not the library that was built. fix: {FIX}")
    return found


def drop_versions(library: bytes) -> bytes:
    """Blank which versions of glibc an ELF file asks for. The wheel's hook changes nothing else."""
    (start,), (size, count) = struct.unpack_from("<Q", library, HEADERS), struct.unpack_from("<HH", library, SECTIONS)
    kept = bytearray(library)
    for i in range(count):
        _, kind, _, _, offset, length = struct.unpack_from("<IIQQQQ", library, start + i * size)
        if kind in VERSIONS:
            kept[offset : offset + length] = bytes(length)
    return bytes(kept)
