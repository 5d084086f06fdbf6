"""Place the tensors of a workload in shared memory, with red zones between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from flashcore_ci.worker.redzones import CANARY, REDZONE_BYTES

ALIGNMENT = 512
Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a tensor is in a set of buffers. Strides are in elements."""

    offset: int
    bytes: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One set of buffers, of ``bytes`` each."""

    inputs: dict[str, Place]
    outputs: dict[str, Place]
    scalars: dict[str, Scalar]
    bytes: int

    @classmethod
    def of(cls, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Layout:
        """Lay out these tensors. ValueError or TypeError for what another process cannot be given."""
        import torch

        offset, places = REDZONE_BYTES, []
        for values in (inputs, outputs):
            found: dict[str, Place] = {}
            for name, value in values.items():
                if isinstance(value, torch.Tensor):
                    found[name] = _place(name, value, offset)
                    offset += -(-(found[name].bytes + REDZONE_BYTES) // ALIGNMENT) * ALIGNMENT
                elif not isinstance(value, Scalar):
                    raise TypeError(f"{name} is a {type(value).__name__}: an isolated candidate gets tensors, numbers and text")
            places.append(found)
        scalars = {name: value for name, value in inputs.items() if not isinstance(value, torch.Tensor)}
        return cls(inputs=places[0], outputs=places[1], scalars=scalars, bytes=offset)

    @classmethod
    def read(cls, content: dict[str, Any]) -> Layout:
        """Read what ``asdict`` made, after JSON."""
        sides = {side: {name: _read_place(place) for name, place in content[side].items()} for side in ("inputs", "outputs")}
        return cls(**sides, scalars=content["scalars"], bytes=content["bytes"])

    def record(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)

    def views(self, memory: Any, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return inputs (with scalars) and outputs of a set in ``memory``."""
        start = number * self.bytes
        inputs = {name: _view(memory, start, place) for name, place in self.inputs.items()}
        return {**self.scalars, **inputs}, {name: _view(memory, start, place) for name, place in self.outputs.items()}

    def overwritten(self, memory: Any, sets: int) -> bool:
        """Tell whether a red zone of any set changed. They must have been filled with CANARY."""
        import torch

        rows = memory[: sets * self.bytes].view(sets, self.bytes)
        places = sorted((*self.inputs.values(), *self.outputs.values()), key=lambda place: place.offset)
        starts = [0, *(place.offset + place.bytes for place in places)]
        ends = [*(place.offset for place in places), self.bytes]
        zones = [rows[:, start:end] for start, end in zip(starts, ends, strict=True)]
        return bool((torch.cat(zones, dim=1) != CANARY).any())


def _place(name: str, tensor: Any, offset: int) -> Place:
    if tensor.device.type != "cuda":
        raise ValueError(f"{name} is on the {tensor.device.type}: an isolated candidate gets tensors of the GPU")
    stride = tuple(tensor.stride()) if 0 not in tensor.stride() else tuple(tensor.contiguous().stride())
    extent = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, stride, strict=True)) if tensor.numel() else 0
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Place(offset=offset, bytes=extent * tensor.element_size(), shape=tuple(tensor.shape), stride=stride, dtype=dtype)


def _read_place(place: dict[str, Any]) -> Place:
    return Place(**{**place, "shape": tuple(place["shape"]), "stride": tuple(place["stride"])})


def _view(memory: Any, start: int, place: Place) -> Any:
    import torch

    dtype = getattr(torch, place.dtype)
    if not place.bytes:
        return torch.empty_strided(place.shape, place.stride, dtype=dtype, device=memory.device)
    inside = memory[start + place.offset : start + place.offset + place.bytes].view(dtype)
    return inside.as_strided(place.shape, place.stride, inside.storage_offset())
