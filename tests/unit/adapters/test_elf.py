from pathlib import Path

import pytest

from flashcore_ci.adapters import elf

RECORDINGS = Path(__file__).parents[2] / "recordings/nvcc"


def cubin(name: str) -> bytes:
    return (RECORDINGS / f"{name}.cubin").read_bytes()


def section(data: bytes, name: str) -> int:
    """Where the content of a section begins."""
    from io import BytesIO

    from elftools.elf.elffile import ELFFile

    return ELFFile(BytesIO(data)).get_section_by_name(name)["sh_offset"]


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def test_entry_functions():
    assert elf.read(cubin("scale")).entries == ("scale",)


@pytest.mark.parametrize("name", ["scale", "hidden"])
def test_a_comment_keeps_the_digest(name):
    assert cubin(name) != cubin(f"{name}-commented")
    assert elf.read(cubin(name)) == elf.read(cubin(f"{name}-commented"))


def test_an_instruction_changes_it():
    assert elf.read(cubin("scale")).digest != elf.read(cubin("scale-changed")).digest


@pytest.mark.parametrize("name", [".text.scale", ".nv.constant0.scale", ".nv.info.scale", ".nv.compat"])
def test_one_bit_of_code_constants_or_attributes_changes_it(name):
    data = cubin("scale")
    altered = flipped(data, section(data, name) + 4)
    assert elf.read(altered).digest != elf.read(data).digest


def test_one_bit_of_initialised_data_changes_it():
    data = cubin("hidden")
    assert elf.read(flipped(data, section(data, ".nv.global.init"))).digest != elf.read(data).digest


@pytest.mark.parametrize("name", [".debug_line", ".nv_debug_line_sass"])
def test_line_numbers_do_not_count(name):
    data = cubin("scale")
    assert elf.read(flipped(data, section(data, name) + 12)).digest == elf.read(data).digest


@pytest.mark.parametrize("data", [b"", b"not an ELF file", b"\x7fELF", b"\x7fELF" + bytes(100)])
def test_anything_else_is_refused(data):
    with pytest.raises(ValueError, match="not a cubin"):
        elf.read(data)


def test_a_cut_cubin_is_refused():
    with pytest.raises(ValueError, match="not a cubin"):
        elf.read(cubin("scale")[:1000])
