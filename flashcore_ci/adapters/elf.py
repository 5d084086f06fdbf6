"""A cubin's ELF file: its entry functions and a digest of its code, without line numbers, comments and folders."""

from __future__ import annotations

import hashlib
import io
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashcore_ci.model.identity import digest_of

_EXCLUDED = re.compile(r"\.(?:rela?\.?)?(?:debug|nv_debug)|\.(?:shstrtab|strtab|symtab)$|\.note\.nv\.tkinfo$|\.nv\.callgraph$")
"""Line numbers, file names, the compiler's command line, and what follows from code. Symbols count by name."""
_SOURCE_HASH = re.compile(r"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}_")
"""nvcc puts a hash of the whole source, comments included, into names with internal linkage."""
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_ATTRIBUTE = struct.Struct("<BBH")
_STT_FUNC, _STT_SECTION = 2, 3
_STO_CUDA_ENTRY = 0x10
_SIZED_ATTRIBUTE = 4
_ATTRIBUTES_OF_A_SYMBOL = frozenset({0x0A, 0x11, 0x12, 0x23, 0x2F})
"""Attributes that begin with a symbol index: constant bank, frame size, least and most stack, register count.
Symbols of debug sections shift the index, so a description of the symbol replaces it."""


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    kind: int
    other: int
    section: str
    value: int

    @property
    def location(self) -> tuple[str, str, int]:
        """The section and offset, or the name if another file defines it."""
        return ("" if self.section else self.name, self.section, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """Entry functions, and a digest of code, data and attributes."""

    entries: tuple[str, ...]
    digest: str


def read(cubin: bytes) -> MachineCode:
    """Read a cubin. ValueError if these bytes are not one."""
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - needed only after a compilation

    try:
        file = ELFFile(io.BytesIO(cubin))
        sections = [(_without_source_hash(section.name), section) for section in file.iter_sections()]
        symbols = _symbols(file.get_section_by_name(".symtab"), [name for name, _ in sections])
        parts = sorted(_section_digest(name, section, symbols) for name, section in sections if not _EXCLUDED.match(name))
    except Exception as error:  # noqa: BLE001 - the parser raises anything on other bytes
        raise ValueError(f"not a cubin: {error}") from None
    named = (symbol for symbol in symbols if symbol.name and symbol.kind != _STT_SECTION and not _EXCLUDED.match(symbol.section))
    names = sorted((symbol.name, symbol.kind, symbol.other, *symbol.location) for symbol in named)
    entries = sorted(symbol.name for symbol in symbols if symbol.kind == _STT_FUNC and symbol.other & _STO_CUDA_ENTRY)
    return MachineCode(entries=tuple(entries), digest=digest_of(parts, names))


def _without_source_hash(name: str) -> str:
    return _SOURCE_HASH.sub(r"\1", name)


def _symbols(table: Any, sections: Sequence[str]) -> list[_Symbol]:
    """Parse the table here, because pyelftools drops the bit of an entry function."""
    strings, names = table.stringtable, dict(enumerate(sections))
    return [
        _Symbol(_without_source_hash(strings.get_string(name)), info & 0xF, other, names.get(index, f"#{index}"), value)
        for name, info, other, index, value, _ in _SYMBOL.iter_unpack(table.data())
    ]


def _section_digest(name: str, section: Any, symbols: Sequence[_Symbol]) -> tuple[str, str, int, int, int, str]:
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
    return (name, str(kind), section["sh_flags"], section["sh_size"], section["sh_addralign"], digest_of(content))


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
