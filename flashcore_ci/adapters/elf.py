"""A cubin's ELF file: its entry functions and a digest of its code, without line numbers, comments and folders."""

from __future__ import annotations

import hashlib
import io
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flashcore_ci.model.identity import digest_of

_EXCLUDED = re.compile(r"\.(?:rela?\.?)?(?:debug|nv_debug)|\.(?:shstrtab|strtab|symtab)$|\.note\.nv\.tkinfo$|\.nv\.callgraph$")
"""Line numbers, file names, the compiler's command line, and what follows from code. Symbols count by name."""
_ALLOCATED = 2
_MODULE = "\0"
"""Replaces the module's id, which holds a hash of the source with its comments. No name has this character."""
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_ATTRIBUTE = struct.Struct("<BBH")
_STT_FUNC, _STT_SECTION = 2, 3
_STO_CUDA_ENTRY = 0x10
_SIZED_ATTRIBUTE = 4
_REGISTERS, _STACK = 0x2F, (0x11, 0x12)
_ATTRIBUTES_OF_A_SYMBOL = frozenset({0x0A, 0x11, 0x12, 0x23, 0x2F})
"""Attributes that begin with a symbol index: constant bank, frame size, least and most stack, register count.
Symbols of debug sections shift the index, so a description of the symbol replaces it."""


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    info: int
    other: int
    section: str
    value: int
    size: int

    @property
    def kind(self) -> int:
        """Function, section and so on."""
        return self.info & 0xF

    @property
    def location(self) -> tuple[str, str, int]:
        """The section and offset, or the name if another file defines it."""
        return ("" if self.section else self.name, self.section, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """Entry functions, and a digest of code, data and attributes."""

    entries: tuple[str, ...]
    digest: str


def read(cubin: bytes, module: str) -> MachineCode:
    """Read a cubin. ``module`` is the id that nvcc made for the source. ValueError if these bytes are not a cubin."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - needed only after a compilation

    def named(name: str) -> str:
        return name.replace(module, _MODULE) if module else name

    try:
        file = ELFFile(io.BytesIO(cubin))
        sections = [(named(section.name), section) for section in file.iter_sections()]
        symbols = _symbols(file.get_section_by_name(".symtab"), [name for name, _ in sections], named)
        counted = {name for name, section in sections if section["sh_flags"] & _ALLOCATED or not _EXCLUDED.match(name)}
        parts = sorted(_section_digest(name, section, symbols) for name, section in sections if name in counted)
        header = [file.header[field] for field in ("e_type", "e_machine", "e_flags", "e_entry")]
    except Exception as error:  # noqa: BLE001 - the parser raises anything on other bytes
        raise ValueError(f"not a cubin: {error}") from None
    kept = (s for s in symbols if s.name and s.kind != _STT_SECTION and (s.section in counted or not _EXCLUDED.match(s.section)))
    names = sorted((symbol.name, symbol.info, symbol.other, symbol.size, *symbol.location) for symbol in kept)
    entries = sorted(symbol.name for symbol in symbols if symbol.kind == _STT_FUNC and symbol.other & _STO_CUDA_ENTRY)
    return MachineCode(entries=tuple(entries), digest=digest_of("machine code", header, parts, names))


def resources(cubin: bytes) -> dict[str, tuple[int, int]]:
    """Return (registers, bytes of local memory with callees) of each function. ValueError if these bytes are not a cubin."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - as above

    try:
        file = ELFFile(io.BytesIO(cubin))
        sections = [section.name for section in file.iter_sections()]
        symbols = _symbols(file.get_section_by_name(".symtab"), sections, str)
        table = file.get_section_by_name(".nv.info")
        known = _attributes(table.data(), symbols) if table is not None else []
    except Exception as error:  # noqa: BLE001 - as above
        raise ValueError(f"not a cubin: {error}") from None
    found = {
        (identity, symbol): int.from_bytes(bytes.fromhex(str(value)), "little") for _, identity, symbol, value in known if symbol
    }
    names = [symbol for identity, symbol in found if identity == _REGISTERS]
    return {str(name): (found[_REGISTERS, name], max(found.get((kind, name), 0) for kind in _STACK)) for name in names}


def _symbols(table: Any, sections: Sequence[str], named: Callable[[str], str]) -> list[_Symbol]:
    """Parse the table here, because pyelftools drops the bit of an entry function."""
    strings, names = table.stringtable, dict(enumerate(sections))
    return [
        _Symbol(named(strings.get_string(name)), info, other, names.get(index, f"#{index}"), value, size)
        for name, info, other, index, value, size in _SYMBOL.iter_unpack(table.data())
    ]


def _section_digest(name: str, section: Any, symbols: Sequence[_Symbol]) -> tuple[object, ...]:
    kind = section["sh_type"]
    if kind == "SHT_NOBITS":
        content: object = ""
    elif kind == "SHT_RELA":
        entries = _RELOCATION.iter_unpack(section.data())
        content = sorted((offset, form, symbols[index].location, addend) for offset, form, index, addend in entries)
    elif name.startswith(".nv.info"):
        content = _attributes(section.data(), symbols)
    else:
        content = hashlib.sha256(section.data()).hexdigest()
    sizes = (section["sh_flags"], section["sh_size"], section["sh_addralign"], section["sh_entsize"])
    return (name, str(kind), *sizes, section["sh_info"] >> 24, digest_of(content))  # the low bits are the index of a symbol


def _attributes(data: bytes, symbols: Sequence[_Symbol]) -> list[tuple[object, ...]]:
    """List (format, id, symbol, value)."""
    attributes: list[tuple[object, ...]] = []
    position = 0
    while position < len(data):
        form, identity, value = _ATTRIBUTE.unpack_from(data, position)
        position += _ATTRIBUTE.size
        if form != _SIZED_ATTRIBUTE:
            attributes.append((form, identity, None, value))
            continue
        payload = data[position : position + value]
        position += value
        symbol = None
        if identity in _ATTRIBUTES_OF_A_SYMBOL:
            symbol = symbols[int.from_bytes(payload[:4], "little")].name
            payload = payload[4:]
        attributes.append((form, identity, symbol, payload.hex()))
    return sorted(attributes, key=repr)
