"""Architectures and GPUs: what each can do, with a source for each number.

Shared memory after opting in, registers and threads: CUDA C++ Programming Guide 13, table "Technical Specifications per Compute Capability".
They equal those of NVIDIA/cccl, ``libcudacxx/include/cuda/__device/arch_traits.h`` (commit 004ad19, read on 2026-11-22).
Peaks: the vendor's page in ``Gpu.source``, dense fp16 with fp32 accumulation, without sparsity. Copies of these pages confirmed SM counts and
bandwidths on that day, but for A10 and L4. SMs x clock confirmed fp16 peaks within 20 %. B200 is as in DGX B200. NVIDIA states 7.7 TB/s for the one in HGX.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

KIB = 1 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What kernels are compiled for. ``shared_bytes``, ``registers``: per block. ``exact``: its code runs on no later GPU."""

    name: str
    capability: str
    shared_bytes: int
    exact: bool = False
    registers: int = 65_536
    thread_registers: int = 255

    def runs_on(self, capability: str) -> bool:
        """Tell whether machine code for this architecture runs on a GPU of this compute capability, as in ``9.0``."""
        if self.exact:
            return capability == self.capability
        (major, minor), (there, level) = (text.partition(".")[::2] for text in (self.capability, capability))
        return major == there and level.isdecimal() and int(level) >= int(minor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One product by NVML's name. ``flops`` in FLOP/s and ``bandwidth`` in byte/s are datasheet peaks."""

    name: str
    capability: str
    multiprocessors: int
    flops: float
    bandwidth: float
    source: str


def _architecture(name: str, shared: int) -> Architecture:
    digits = name.removeprefix("sm_").rstrip("a")
    capability = f"{digits[:-1]}.{digits[-1]}"
    return Architecture(name=name, capability=capability, shared_bytes=shared * KIB, exact=name.endswith("a"))


SHARED_KIB = {"sm_80": 163, "sm_86": 99, "sm_89": 99, "sm_90": 227, "sm_90a": 227, "sm_100": 227, "sm_120": 99}
ARCHITECTURES = {name: _architecture(name, shared) for name, shared in SHARED_KIB.items()}
_NVIDIA = "https://www.nvidia.com/"
_A100 = f"{_NVIDIA}en-us/data-center/a100/"
_H100 = f"{_NVIDIA}en-us/data-center/h100/"
_AMPERE = f"{_NVIDIA}content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf"
_ADA = "https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf"
_BLACKWELL = "https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf"

_PRODUCTS: tuple[tuple[str, str, int, float, float, str], ...] = (
    ("NVIDIA A100-SXM4-40GB", "8.0", 108, 312e12, 1.555e12, _A100),
    ("NVIDIA A100-SXM4-80GB", "8.0", 108, 312e12, 2.039e12, _A100),
    ("NVIDIA A100-PCIE-40GB", "8.0", 108, 312e12, 1.555e12, _A100),
    ("NVIDIA A100 80GB PCIe", "8.0", 108, 312e12, 1.935e12, _A100),
    ("NVIDIA GeForce RTX 3090", "8.6", 82, 71e12, 936e9, _AMPERE),
    ("NVIDIA A10", "8.6", 72, 125e12, 600e9, f"{_NVIDIA}en-us/data-center/products/a10-gpu/"),
    ("NVIDIA GeForce RTX 4090", "8.9", 128, 165.2e12, 1.008e12, _ADA),
    ("NVIDIA L4", "8.9", 58, 121e12, 300e9, f"{_NVIDIA}en-us/data-center/l4/"),
    ("NVIDIA L40S", "8.9", 142, 362.05e12, 864e9, f"{_NVIDIA}en-us/data-center/l40s/"),
    ("NVIDIA H100 80GB HBM3", "9.0", 132, 989e12, 3.35e12, _H100),
    ("NVIDIA H100 PCIe", "9.0", 114, 756e12, 2.0e12, _H100),
    ("NVIDIA H200", "9.0", 132, 989e12, 4.8e12, f"{_NVIDIA}en-us/data-center/h200/"),
    ("NVIDIA GH200 480GB", "9.0", 132, 990e12, 4.0e12, f"{_NVIDIA}en-us/data-center/grace-hopper-superchip/"),
    ("NVIDIA B200", "10.0", 148, 2.25e15, 8.0e12, f"{_NVIDIA}en-us/data-center/dgx-b200/"),
    ("NVIDIA GeForce RTX 5090", "12.0", 170, 209.5e12, 1.792e12, _BLACKWELL),
)
GPUS = {
    name: Gpu(name=name, capability=capability, multiprocessors=count, flops=flops, bandwidth=bandwidth, source=source)
    for name, capability, count, flops, bandwidth, source in _PRODUCTS
}


def best(capability: str, names: Sequence[str] = tuple(ARCHITECTURES)) -> Architecture | None:
    """Choose the architecture of ``names`` whose code a GPU of this compute capability runs best, if any."""
    return most_demanding(name for name in names if ARCHITECTURES[name].runs_on(capability))


def most_demanding(names: Iterable[str]) -> Architecture | None:
    """Return the one of ``names`` that the fewest GPUs run, of those for one GPU. None if there is none."""
    found = (ARCHITECTURES[name] for name in names)
    return max(found, key=lambda one: (int(one.capability.partition(".")[2]), one.exact), default=None)
