"""Fences: bytes before and behind a tensor that nobody may write to. A canary that is gone tells of a write outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FENCE_BYTES = 4096
CANARY = 0x5A


class Fences:
    """The fences of one workload."""

    def __init__(self) -> None:
        self._fences: list[tuple[str, Any]] = []

    def around(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The same values, shapes, strides and sharing of memory, every storage between two fences; what is no tensor stays."""
        import torch

        moved: dict[int, Any] = {}
        return {
            name: self._moved(name, value, moved) if isinstance(value, torch.Tensor) and value.numel() else value
            for name, value in tensors.items()
        }

    def broken(self) -> str:
        """The name of a tensor beside which somebody wrote; empty while all canaries live."""
        import torch

        if not self._fences or not bool((torch.cat([fence for _, fence in self._fences]) != CANARY).any()):
            return ""
        return next(name for name, fence in self._fences if bool((fence != CANARY).any()))

    def _moved(self, name: str, tensor: Any, moved: dict[int, Any]) -> Any:
        import torch

        storage = tensor.untyped_storage()
        if storage.data_ptr() not in moved:
            memory = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            buffer = torch.empty(memory.numel() + 2 * FENCE_BYTES, dtype=torch.uint8, device=tensor.device)
            inside = buffer[FENCE_BYTES : FENCE_BYTES + memory.numel()]
            inside.copy_(memory)
            for fence in (buffer[:FENCE_BYTES], buffer[FENCE_BYTES + memory.numel() :]):
                fence.fill_(CANARY)
                self._fences.append((name, fence))
            moved[storage.data_ptr()] = inside
        inside = moved[storage.data_ptr()].view(tensor.dtype)
        return inside.as_strided(tensor.shape, tensor.stride(), inside.storage_offset() + tensor.storage_offset())
