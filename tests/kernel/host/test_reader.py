"""How tensors are read: src/abi.cu compiled for the host, over Python's own tuples and a stand-in for DLPack's function of PyTorch."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

KERNEL = Path(__file__).parents[3] / "kernel"
STUBS = Path(__file__).parent / "runtime"
ROOM = 10  # words of a tensor
NONE = 2**64 - 1
GUARD = 4711


class DLTensor(ctypes.Structure):
    """As dlpack.h has it."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


@dataclass(frozen=True, eq=False)
class Tensor:
    shape: tuple[int, ...] = (3, 5)
    strides: tuple[int, ...] = (5, 1)
    address: int = 0x1000
    offset: int = 0
    device: tuple[int, int] = (2, 0)
    code: int = 2
    bits: int = 16
    lanes: int = 1
    lost: bool = False


class Module(Tensor):
    """A kind of tensor is one."""


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
def dl_tensor(tensor: Tensor, address: int) -> int:
    if tensor.lost:
        return -1
    out = DLTensor.from_address(address)
    out.data, out.byte_offset = tensor.address, tensor.offset
    (out.device_type, out.device_id), out.ndim = tensor.device, len(tensor.shape)
    out.code, out.bits, out.lanes = tensor.code, tensor.bits, tensor.lanes
    for name in ("shape", "strides"):
        numbers = getattr(tensor, name)
        kept = (ctypes.c_int64 * len(numbers))(*numbers)
        KEPT.append(kept)
        setattr(out, name, kept)
    return 0


KEPT: list[Any] = []
Read = Callable[..., tuple[int, list[int]]]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Words used, or what was refused; and all words."""
    out = tmp_path_factory.mktemp("abi") / "abi.so"
    options = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{STUBS}", f"-I{KERNEL / 'include'}", "-shared", "-fPIC"]
    subprocess.run(["g++", *options, "-x", "c++", str(KERNEL / "src/abi.cu"), "-o", str(out)], check=True, timeout=600)
    function = ctypes.PyDLL(str(out)).flashcore_read
    function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function.restype = ctypes.c_int64
    functions = (ctypes.pythonapi.PyTuple_GetItem, ctypes.pythonapi.PyObject_IsInstance, dl_tensor)
    addresses = [ctypes.cast(f, ctypes.c_void_p).value for f in functions]

    def call(*tensors: Any) -> tuple[int, list[int]]:
        words = (ctypes.c_uint64 * (ROOM * len(tensors) + 1))(*[GUARD] * (ROOM * len(tensors) + 1))
        reader = (ctypes.c_uint64 * 6)(len(tensors), *addresses, id(None), id(Tensor))
        used = function(ctypes.addressof(reader), tensors, ctypes.addressof(words))
        assert words[ROOM * len(tensors)] == GUARD
        return used, list(words)

    return call


def test_addresses_come_first_and_then_all_else(read: Read) -> None:
    used, words = read(Tensor(), None, Tensor((2, 3, 4, 8), (96, 32, 8, 1), 0x4000, 64), Tensor((), ()))
    assert words[:4] == [0x1000, 0, 0x4040, 0x1000]
    assert words[5:9] == [3, 5, 5, 1]
    assert words[9] == NONE
    assert words[11:19] == [2, 3, 4, 8, 96, 32, 8, 1]
    assert used == 20
    assert words[used] == GUARD


def test_what_differs_only_in_addresses_has_the_same_words(read: Read) -> None:
    base = Tensor()
    _, words = read(base, base)
    moved = replace(base, address=0x9000, offset=16)
    assert read(moved, base)[1][2:] == words[2:]
    assert read(Module(), base)[1] == words


@pytest.mark.parametrize(
    "change",
    [
        {"shape": (3, 6)},
        {"strides": (6, 1)},
        {"shape": (3, 5, 1), "strides": (5, 1, 1)},
        {"shape": (15,), "strides": (1,)},
        {"device": (2, 1)},
        {"device": (1, 0)},
        {"code": 4},
        {"bits": 32},
        {"lanes": 2},
    ],
)
def test_every_other_difference_shows(read: Read, change: dict[str, Any]) -> None:
    (used, words), (other_used, other) = read(Tensor(), None), read(replace(Tensor(), **change), None)
    assert words[2:used] != other[2:other_used]


@pytest.mark.parametrize(("tensors", "place"), [((5,), 0), ((Tensor(), "q"), 1), ((None, Tensor(lost=True)), 1)])
def test_what_is_no_tensor_is_named_by_its_place(read: Read, tensors: tuple[Any, ...], place: int) -> None:
    assert read(*tensors)[0] == -1 - place


def test_more_dimensions_than_there_is_room_for_are_refused(read: Read) -> None:
    assert read(None, Tensor((1,) * 5, (1,) * 5))[0] == -2
    assert read(*[Tensor((1,) * 4, (1,) * 4)] * 9)[0] == 9 * ROOM
