"""Detect writes out of bounds by bytes that a kernel must not change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REDZONE_BYTES = 4096
CANARY = 0x5A


class RedZones:
    """The red zones around the tensors of one workload."""

    def __init__(self) -> None:
        self._zones: list[tuple[str, Any]] = []

    def surround(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Copy every storage between two red zones. Shapes and sharing stay."""
        import torch

        moved: dict[int, Any] = {}
        filled = {name: value for name, value in tensors.items() if isinstance(value, torch.Tensor) and value.numel()}
        return {**tensors, **{name: self._move(name, value, moved) for name, value in filled.items()}}

    def overwritten(self) -> str:
        """Return the name of an overwritten tensor, or ""."""
        import torch

        if not self._zones or not bool((torch.cat([zone for _, zone in self._zones]) != CANARY).any()):
            return ""
        return next(name for name, zone in self._zones if bool((zone != CANARY).any()))

    def _move(self, name: str, tensor: Any, moved: dict[int, Any]) -> Any:
        import torch

        storage = tensor.untyped_storage()
        if storage.data_ptr() not in moved:
            memory = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            buffer = torch.empty(memory.numel() + 2 * REDZONE_BYTES, dtype=torch.uint8, device=tensor.device)
            inside = buffer[REDZONE_BYTES : REDZONE_BYTES + memory.numel()]
            inside.copy_(memory)
            for zone in (buffer[:REDZONE_BYTES], buffer[REDZONE_BYTES + memory.numel() :]):
                zone.fill_(CANARY)
                self._zones.append((name, zone))
            moved[storage.data_ptr()] = inside
        inside = moved[storage.data_ptr()].view(tensor.dtype)
        return inside.as_strided(tensor.shape, tensor.stride(), inside.storage_offset() + tensor.storage_offset())
