"""Share GPU memory with one other process by a descriptor, and nothing next to it.

The driver maps whole allocations. PyTorch's allocator puts many tensors into one, so shared memory has allocations of its own.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

PINNED, DEVICE, POSIX_DESCRIPTOR, READ_WRITE = 1, 1, 1, 3  # of CUmemAllocationProp and CUmemAccessDesc


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class SharedMemory:
    """A mapping of ``size`` bytes on GPU 0: made here, or by the sender of ``descriptor``."""

    def __init__(self, size: int, descriptor: int | None = None) -> None:
        import torch

        torch.zeros(1, device="cuda")
        self._cuda = ctypes.CDLL("libcuda.so.1")
        properties = _Properties(type=PINNED, handles=POSIX_DESCRIPTOR, location=_Location(DEVICE, 0))
        unit = ctypes.c_size_t()
        self._call("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(properties), 0)
        self.size = max(1, -(-size // unit.value)) * unit.value
        handle, self._address = ctypes.c_uint64(), ctypes.c_uint64()
        if descriptor is None:
            self._call(
                "cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(self.size), ctypes.byref(properties), ctypes.c_uint64(0)
            )
        else:
            self._call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), POSIX_DESCRIPTOR)
        size_, zero = ctypes.c_size_t(self.size), ctypes.c_uint64(0)
        self._call("cuMemAddressReserve", ctypes.byref(self._address), size_, ctypes.c_size_t(0), zero, zero)
        self._call("cuMemMap", self._address, size_, ctypes.c_size_t(0), handle, zero)
        access = _Access(location=_Location(DEVICE, 0), flags=READ_WRITE)
        self._call("cuMemSetAccess", self._address, size_, ctypes.byref(access), ctypes.c_size_t(1))
        self._handle = handle

    def export(self) -> int:
        """Return a descriptor of this memory."""
        descriptor = ctypes.c_int(-1)
        self._call("cuMemExportToShareableHandle", ctypes.byref(descriptor), self._handle, POSIX_DESCRIPTOR, ctypes.c_uint64(0))
        return descriptor.value

    def bytes(self) -> Any:
        """Return the memory as a tensor of bytes."""
        import torch

        return torch.as_tensor(self, device="cuda")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.size,), "typestr": "|u1", "data": (self._address.value, False), "version": 3, "strides": None}

    def close(self) -> None:
        """Unmap. No tensor of this memory may be used any more."""
        self._call("cuMemUnmap", self._address, ctypes.c_size_t(self.size))
        self._call("cuMemAddressFree", self._address, ctypes.c_size_t(self.size))
        self._call("cuMemRelease", self._handle)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned {status}")


def attach(size: int, descriptor: int) -> SharedMemory:
    """Map the memory of a descriptor, and close the descriptor."""
    try:
        return SharedMemory(size, descriptor)
    finally:
        os.close(descriptor)
