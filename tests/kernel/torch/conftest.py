"""Operators on the CPU of a real PyTorch, over stand-ins for the kernels: ``python -m pytest -m nightly tests/kernel/torch``."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[3]
KERNEL, HOST = ROOT / "kernel", ROOT / "tests/kernel/host/runtime"
MEASURED = "2.11"
"""The first version that the binding serves. CI tests 2.13 on the CPU, and GPU runs cover 2.11."""


def compile_for_host(out: Path, *options: object) -> Path:
    """Compile C++ into a shared library."""
    subprocess.run(["g++", "-std=c++17", "-O1", "-fPIC", "-shared", *map(str, options), "-o", str(out)], check=True)
    return out


@pytest.fixture(scope="session")
def operators(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Register ``flashcore::`` for the CPU, with its C++ part and stand-ins for the kernels."""
    torch = pytest.importorskip("torch", minversion=MEASURED, reason="install torch, for example torch==2.13.0+cpu")
    folder = tmp_path_factory.mktemp("libraries")
    compile_for_host(
        folder / "libflashcore_torch.so", "-Wall", "-Wextra", "-Werror", f"-Wl,--version-script={KERNEL / 'src/torch_ops.map'}",
        "-isystem", KERNEL / "third_party/torch/include", "-DTORCH_TARGET_VERSION=0x020b000000000000", KERNEL / "src/torch_ops.cpp",
    )  # fmt: skip
    kernels = compile_for_host(
        folder / "libkernels.so", f"-I{KERNEL / 'include'}", f"-I{HOST}", Path(__file__).parent / "kernels.cpp", "-x", "c++",
        KERNEL / "src/abi.cu",
    )  # fmt: skip
    sys.path.insert(0, str(KERNEL))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLASHCORE_LIBRARY", str(folder))
        import flashcore
        from flashcore import _launch, _replay, _tensors

        _replay.KEY = _tensors.DEVICE = "cpu"
        _replay.KEY = "CPU"
        _tensors._zeros = lambda _device, size: torch.zeros(size, dtype=torch.uint8)
        _launch.current_stream = lambda _device: 0
        flashcore.load(kernels)
        import flashcore.ops
    return SimpleNamespace(
        flashcore=flashcore, ops=torch.ops.flashcore, kernels=ctypes.CDLL(str(kernels)), folder=folder, torch=torch
    )
