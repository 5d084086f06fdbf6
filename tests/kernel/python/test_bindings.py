"""The bindings: structures match the C headers, and the package exports its functions. No GPU, no torch."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path
from typing import Any

import pytest

INCLUDE = Path(__file__).parents[3] / "kernel/include/flashcore"
C_TYPES = {
    "uint32_t": ctypes.c_uint32,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
}


def parse_fields(header: str, name: str, operand: type) -> list[tuple[str, type]]:
    """Read the fields of a C structure, with their types in ctypes."""
    text = re.sub(r"//.*", "", (INCLUDE / header).read_text(encoding="utf-8"))
    body = re.search(rf"struct {name} {{(.*?)}};", text, re.DOTALL)
    assert body, f"{header} has no struct {name}"
    fields = re.findall(r"(?:const )?(\w+)(\*?)\s+(\w+);", body.group(1))
    local = __import__("flashcore._local", fromlist=["Structure"]).Structure
    types = {**C_TYPES, "FlashcoreOperand": operand, "FlashcoreLocal": local}
    return [(field, ctypes.c_void_p if pointer else types[kind]) for kind, pointer, field in fields]


@pytest.mark.parametrize(
    ("module", "structure", "header", "name"),
    [
        ("_tensors", "Operand", "core/operand.h", "FlashcoreOperand"),
        ("_local", "Structure", "core/local_abi.h", "FlashcoreLocal"),
        ("_attention", "Arguments", "attention/abi.h", "FlashcoreAttentionArguments"),
        ("_varlen", "Arguments", "attention/abi.h", "FlashcoreVarlenArguments"),
        ("_decode", "Arguments", "decode/abi.h", "FlashcoreDecodeArguments"),
        ("_combine", "Arguments", "combine/abi.h", "FlashcoreCombineArguments"),
        ("_stream", "Arguments", "stream/abi.h", "FlashcoreStreamArguments"),
    ],
)
def test_structures_have_the_headers_fields_in_order(bindings: Any, module: str, structure: str, header: str, name: str) -> None:
    """The layouts are then equal, because ctypes aligns as the C ABI does."""
    mirror = getattr(__import__(f"flashcore.{module}", fromlist=[structure]), structure)
    assert list(mirror._fields_) == parse_fields(header, name, bindings.tensors.Operand)


def test_addresses_are_aligned_to_words(bindings: Any) -> None:
    arguments = bindings.decode.Arguments
    for name, kind in arguments._fields_:
        if kind in (ctypes.c_void_p, bindings.tensors.Operand):
            assert getattr(arguments, name).offset % bindings.launch.WORD == 0
    structure = arguments(q=bindings.tensors.Operand(batch_stride=11), table_stride=13)
    words = bindings.launch.to_words(structure)
    assert words[bindings.launch.get_word_index(arguments, "q") + 1] == 11
    assert words[bindings.launch.get_word_index(arguments, "table_stride")] == 13


def test_the_package_exports_its_functions_without_torch(bindings: Any) -> None:
    for name in bindings.flashcore.__all__:
        assert callable(getattr(bindings.flashcore, name))
    with pytest.raises(AttributeError, match="flash_attn_2"):
        _ = bindings.flashcore.flash_attn_2
    loaded = sys.modules["flashcore"]
    assert "torch" not in vars(loaded)
