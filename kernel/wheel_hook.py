"""Put the libraries into the wheel: ``FLASHCORE_LIBRARIES`` is the folder that ``flashcore-ci build`` wrote.

The wheel promises manylinux_2_28. The linker of a newer machine asks for glibc 2.34, where glibc took over the functions of libdl,
libpthread and librt. These functions are much older, so their version is dropped from the libraries. A library that needs more is refused.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # the tests import the functions below
    BuildHookInterface = object

TAG = "py3-none-manylinux_2_28_x86_64"
LIMITS = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
"""The newest symbols that manylinux_2_28 allows."""

OPERATIONS = ("attention", "combine", "decode", "e4m3", "stream")
REPLAY = "libflashcore_torch.so"
KERNEL = Path(__file__).resolve().parent
MOVED = re.compile(r"^(dl|pthread_|sem_|shm_)\w+$")
MOVED_IN, OLDEST = "GLIBC_2.34", "GLIBC_2.2.5"
UNVERSIONED = 1  # VER_NDX_GLOBAL
MAX_BYTES = 24_000_000
"""Of each library, without what ``strip`` removes."""
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", f"-Wl,--version-script={KERNEL / 'src/torch_ops.map'}")


class Hook(BuildHookInterface):  # type: ignore[misc]
    """Hatchling's hook."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Add the libraries and the tag."""
        self.folder = Path(tempfile.mkdtemp(prefix="flashcore-wheel-"))
        for path in collect(Path(os.environ.get("FLASHCORE_LIBRARIES", "")), self.folder):
            build_data["force_include"][str(path)] = f"flashcore/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = TAG

    def finalize(self, *_arguments: Any) -> None:
        """Remove the copies."""
        shutil.rmtree(self.folder)


def collect(built: Path, folder: Path) -> list[Path]:
    """Copy the built libraries, compile the one for PyTorch, and check what they need. ValueError names what is missing."""
    paths = []
    for operation in OPERATIONS:
        name = f"libflashcore_{operation}.so"
        source = next((path for path in (built / operation / name, built / name) if path.is_file()), None)
        if source is None:
            raise ValueError(f"FLASHCORE_LIBRARIES: {str(built)!r} has no {name}. Run flashcore-ci build, and name its folder")
        paths.append(Path(shutil.copy(source, folder)))
    paths.append(compile_replay(folder / REPLAY))
    for path in paths:
        drop_moved_versions(path)
        check_symbols(path)
        check_exports(path)
        check_size(path)
    return paths


def compile_replay(out: Path) -> Path:
    """Compile the C++ part of PyTorch's operators. It links to no PyTorch."""
    include = KERNEL / "third_party/torch/include"
    subprocess.run(  # noqa: S603 - the compiler of this machine, on a file of this folder
        [os.environ.get("CXX", "g++"), *FLAGS, "-isystem", str(include), "-DTORCH_TARGET_VERSION=0x020b000000000000",
         str(KERNEL / "src/torch_ops.cpp"), "-o", str(out)],
        check=True,
    )  # fmt: skip
    return out


def list_needs(path: Path) -> dict[str, set[str]]:
    """Return the versions of each family that the library needs, such as GLIBC: 2.14, 2.28."""
    needs: dict[str, set[str]] = {}
    with path.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if isinstance(section, GNUVerNeedSection):
                for _, versions in section.iter_versions():
                    for version in versions:
                        family, _, number = version.name.rpartition("_")
                        needs.setdefault(family, set()).add(number)
    return needs


def check_symbols(path: Path) -> None:
    """ValueError if the library needs a newer glibc or libstdc++ than the tag promises."""
    for family, numbers in list_needs(path).items():
        for number in numbers:
            if family not in LIMITS or tuple(map(int, number.split("."))) > LIMITS[family]:
                raise ValueError(f"{path.name}: needs {family}_{number}, and {TAG} does not have it. Build on an older Linux")


def check_exports(path: Path) -> None:
    """ValueError unless the library exports C functions of FlashCore alone. The loader gives a process one copy of other symbols."""
    with path.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        exported = {symbol.name: symbol["st_info"] for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF"}
    for name, info in exported.items():
        if not name.startswith("flashcore_") or (info["type"], info["bind"]) != ("STT_FUNC", "STB_GLOBAL"):
            raise ValueError(
                f"{path.name}: exports {name}, which two libraries of a process would share. Build it with -fvisibility=hidden"
            )
    if not exported:
        raise ValueError(f"{path.name}: exports no function. Mark those of its C ABI with FLASHCORE_API")


def measure_stripped(path: Path) -> int:
    """Return the bytes that ``strip`` leaves: all that is loaded, and the table of sections."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        loaded = [segment["p_offset"] + segment["p_filesz"] for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]
        return int(max(loaded) + elf["e_shnum"] * elf["e_shentsize"])


def check_size(path: Path) -> None:
    """ValueError if the library exceeds its budget."""
    size = measure_stripped(path)
    if size > MAX_BYTES:
        raise ValueError(
            f"{path.name}: has {size:,} bytes without symbols, the limit is {MAX_BYTES:,}. Remove a variant from variants.toml"
        )


def drop_moved_versions(path: Path) -> None:
    """Let functions that glibc 2.34 took over bind to their oldest version. Others keep theirs, and ``check_symbols`` refuses them."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        needed = next(section for section in elf.iter_sections() if isinstance(section, GNUVerNeedSection))
        symbols = next(section for section in elf.iter_sections() if isinstance(section, GNUVerSymSection))
        moved = {
            version["vna_other"] for _, versions in needed.iter_versions() for version in versions if version.name == MOVED_IN
        }
        names = {i: symbol.name for i, symbol in enumerate(symbols.iter_symbols()) if symbol["ndx"] in moved}
        names = {i: elf.get_section(symbols["sh_link"]).get_symbol(i).name for i in names}
        entries = list(_list_entries(file, needed["sh_offset"], elf.get_section(needed["sh_link"])))
        table = symbols["sh_offset"]
    if not moved or not all(MOVED.match(name) for name in names.values()):
        return
    oldest = next((value for _, name, value in entries if name == OLDEST), None)
    if oldest is None:
        return
    with path.open("r+b") as file:
        for i in names:
            file.seek(table + 2 * i)
            file.write(struct.pack("<H", UNVERSIONED))
        for offset, name, _ in entries:
            if name == MOVED_IN:
                file.seek(offset)
                file.write(oldest[:4])  # the hash
                file.seek(offset + 8)
                file.write(oldest[8:12])  # the name


def _list_entries(file: Any, offset: int, strings: Any) -> Any:
    """Yield where each needed version (Elf64_Vernaux) is, its name and its bytes."""
    more = 1
    while more:
        file.seek(offset)
        _, _, _, auxiliary, more = struct.unpack("<HHIII", file.read(16))
        at, step = offset + auxiliary, 1
        while step:
            file.seek(at)
            entry = file.read(16)
            _, _, _, name, step = struct.unpack("<IHHII", entry)
            yield at, strings.get_string(name), entry
            at += step
        offset += more
