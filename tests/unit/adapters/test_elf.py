import re
from pathlib import Path

import pytest

from flashcore_ci.adapters import elf

RECORDINGS = Path(__file__).parents[2] / "recordings/nvcc"


def cubin(name: str) -> bytes:
    return (RECORDINGS / f"{name}.cubin").read_bytes()


def read(data: bytes) -> elf.MachineCode:
    found = re.search(rb"_INTERNAL(_[0-9a-f]{8}_7_unit_cu_[0-9a-f]{8})", data)
    return elf.read(data, found[1].decode() if found else "")


def section(data: bytes, name: str) -> int:
    """Where the content of a section begins."""
    from io import BytesIO

    from elftools.elf.elffile import ELFFile

    return ELFFile(BytesIO(data)).get_section_by_name(name)["sh_offset"]


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def test_entry_functions():
    assert read(cubin("scale")).entries == ("scale",)


@pytest.mark.parametrize("name", ["scale", "hidden"])
def test_a_comment_keeps_the_digest(name):
    assert cubin(name) != cubin(f"{name}-commented")
    assert read(cubin(name)) == read(cubin(f"{name}-commented"))


def test_an_instruction_changes_it():
    assert read(cubin("scale")).digest != read(cubin("scale-changed")).digest


@pytest.mark.parametrize("offset", [48, 51])  # e_flags: the architecture
def test_the_architecture_changes_it(offset):
    data = cubin("scale")
    assert read(flipped(data, offset)).digest != read(data).digest


def test_names_count_except_for_the_modules_id():
    data = cubin("hidden")
    renamed = data.replace(b"6hiddenE", b"6hiddemE")
    assert read(renamed).digest != read(data).digest
    assert elf.read(data, "").digest != elf.read(cubin("hidden-commented"), "").digest


@pytest.mark.parametrize("name", [".text.scale", ".nv.constant0.scale", ".nv.info.scale", ".nv.compat"])
def test_one_bit_of_code_constants_or_attributes_changes_it(name):
    data = cubin("scale")
    altered = flipped(data, section(data, name) + 4)
    assert read(altered).digest != read(data).digest


def test_one_bit_of_initialised_data_changes_it():
    data = cubin("hidden")
    assert read(flipped(data, section(data, ".nv.global.init"))).digest != read(data).digest


@pytest.mark.parametrize("name", [".debug_line", ".nv_debug_line_sass"])
def test_line_numbers_do_not_count(name):
    data = cubin("scale")
    assert read(flipped(data, section(data, name) + 12)).digest == read(data).digest


@pytest.mark.parametrize("data", [b"", b"not an ELF file", b"\x7fELF", b"\x7fELF" + bytes(100)])
def test_anything_else_is_refused(data):
    with pytest.raises(ValueError, match="not a cubin"):
        read(data)


def test_a_cut_cubin_is_refused():
    with pytest.raises(ValueError, match="not a cubin"):
        read(cubin("scale")[:1000])
