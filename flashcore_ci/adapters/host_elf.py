"""Host objects and libraries: digests of what a process loads, without device code, line numbers and addresses."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from typing import Any

from flashcore_ci.model.identity import digest_of

_ALLOCATED = 2
_DEVICE_CODE = ".nv_fatbin"
"""The cubin with its line numbers. ``adapters/elf.py`` digests it."""
_BUILD_ID = ".note.gnu.build-id"
_WITHOUT_ADDRESSES = (".rodata", ".dynstr", ".interp", ".gnu.version", ".tdata", ".comment")


def object_digest(data: bytes, module: str) -> str:
    """Digest an object's loaded sections, relocations and symbols without the id of the ``module``. ValueError for other bytes."""

    def named(name: str) -> str:
        return name.replace(module, "\0") if module else name

    def content(section: Any) -> str:
        loaded: bytes = section.data()
        return hashlib.sha256(loaded.replace(module.encode(), bytes(len(module))) if module else loaded).hexdigest()

    return digest_of("host object", list(_parse(data, lambda file: _object_parts(file, named, content))))


def library_digest(data: bytes) -> str:
    """Digest a library's loaded sections: all sizes, and the bytes of those without addresses. ValueError for other bytes."""
    return digest_of("host library", list(_parse(data, _library_parts)))


def _parse(data: bytes, parts: Callable[[Any], Iterator[object]]) -> list[object]:
    from elftools.elf.elffile import ELFFile  # noqa: PLC0415 - needed only after a compilation

    try:
        return list(parts(ELFFile(io.BytesIO(data))))
    except Exception as error:  # noqa: BLE001 - the parser raises anything on other bytes
        raise ValueError(f"not a host object: {error}") from None


def _object_parts(file: Any, named: Callable[[str], str], content: Callable[[Any], str]) -> Iterator[object]:
    sections = list(file.iter_sections())
    table = file.get_section_by_name(".symtab")
    symbols = [_symbol(symbol, sections, named) for symbol in table.iter_symbols()]
    yield sorted(symbol for symbol in symbols if symbol[0] and symbol[1] != "STT_FILE")
    for section in sections:
        kind, name = section["sh_type"], named(section.name)
        if kind in ("SHT_RELA", "SHT_REL"):
            target = sections[section["sh_info"]]
            if target["sh_flags"] & _ALLOCATED and target.name != _DEVICE_CODE:
                yield (
                    name,
                    [
                        (r["r_offset"], r["r_info_type"], symbols[r["r_info_sym"]], r.entry.get("r_addend", 0))
                        for r in section.iter_relocations()
                    ],
                )
        elif section["sh_flags"] & _ALLOCATED and section.name != _DEVICE_CODE:
            sizes = (section["sh_flags"], section["sh_size"], section["sh_addralign"])
            yield (name, str(kind), *sizes, "" if kind == "SHT_NOBITS" else content(section))


def _symbol(symbol: Any, sections: list[Any], named: Callable[[str], str]) -> tuple[str, str, str, str, str, int, int]:
    index = symbol["st_shndx"]
    section = sections[index].name if isinstance(index, int) else str(index)
    info, other = symbol["st_info"], symbol["st_other"]
    return (
        named(symbol.name),
        info["type"],
        info["bind"],
        other["visibility"],
        named(section),
        symbol["st_value"],
        symbol["st_size"],
    )


def _library_parts(file: Any) -> Iterator[object]:
    sections = list(file.iter_sections())
    for section in sections:
        if section["sh_flags"] & _ALLOCATED and section.name not in (_DEVICE_CODE, _BUILD_ID):
            is_fixed = section.name.startswith(_WITHOUT_ADDRESSES)
            content = hashlib.sha256(section.data()).hexdigest() if is_fixed else ""
            yield (section.name, str(section["sh_type"]), section["sh_flags"], section["sh_size"], content)
    dynamic = file.get_section_by_name(".dynsym")
    exported = [_symbol(symbol, sections, str) for symbol in dynamic.iter_symbols()]
    yield [(*symbol[:5], symbol[6]) for symbol in exported]
    yield [tag.entry.d_tag for tag in file.get_section_by_name(".dynamic").iter_tags()]
