"""The bindings over a fake torch and fake kernel libraries."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import standin_torch

KERNEL = Path(__file__).parents[2] / "kernel"
WORKSPACE_BYTES = 4096


class Kernels:
    """Copies the arguments of every call, and returns ``status``."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.structures: dict[str, type[ctypes.Structure]] = {}
        self.status = 0

    def __getattr__(self, name: str) -> Any:
        def function(address: int) -> int:
            structure = self.structures[name]
            self.calls.append((name, structure.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(structure)))))
            return self.status

        return function

    def flashcore_read(self, _reader: int, tensors: tuple[Any, ...], address: int) -> int:
        """Write addresses as core/reader.h does, and a hash in place of each tensor's kind."""
        length = len(tensors)
        words = (ctypes.c_uint64 * (10 * length)).from_address(address)
        for i, tensor in enumerate(tensors):
            if tensor is not None and (not isinstance(tensor, standin_torch.Tensor) or tensor.dim() > 4):
                return -1 - i
            words[i] = 0 if tensor is None else tensor.address
            kind = None if tensor is None else (tensor.shape, tensor.strides, tensor.dtype, tensor.device)
            words[length] = hash(kind) % 2**64
            length += 1
        return length

    def flashcore_decode_workspace_bytes(self, _reference: Any) -> int:
        return WORKSPACE_BYTES

    flashcore_attention_varlen_workspace_bytes = flashcore_decode_workspace_bytes
    flashcore_e4m3_varlen_workspace_bytes = flashcore_decode_workspace_bytes

    def flashcore_error_string(self) -> bytes:
        return b"splits: must not be negative"


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Import the package ``flashcore`` over fakes. Afterwards remove its modules."""
    monkeypatch.setitem(sys.modules, "torch", standin_torch)
    monkeypatch.syspath_prepend(str(KERNEL))
    vars(standin_torch.state).update(stream=7, capturing=False, compiling=False)
    before = {name for name in sys.modules if name.split(".")[0] == "flashcore"}
    for name in before:
        monkeypatch.delitem(sys.modules, name)
    yield _import_bindings()
    for name in [name for name in sys.modules if name.split(".")[0] == "flashcore"]:
        del sys.modules[name]


def _import_bindings() -> SimpleNamespace:
    import flashcore
    from flashcore import _attention, _decode, _e4m3, _e4m3_varlen, _flash, _launch, _library, _tensors, _varlen

    kernels = Kernels()
    kernels.structures = {
        "flashcore_attention_forward": _attention.Arguments,
        "flashcore_attention_varlen": _varlen.Arguments,
        "flashcore_decode": _decode.Arguments,
        "flashcore_e4m3_forward": _e4m3.Arguments,
        "flashcore_e4m3_transpose": _e4m3.TransposeArguments,
        "flashcore_e4m3_varlen": _e4m3_varlen.Arguments,
    }
    _library._libraries.update({"attention": kernels, "decode": kernels, "e4m3": kernels})  # type: ignore[dict-item]
    modules: dict[str, ModuleType] = {
        "decode": _decode, "flash": _flash, "launch": _launch, "library": _library, "tensors": _tensors
    }  # fmt: skip
    return SimpleNamespace(flashcore=flashcore, kernels=kernels, **modules)
