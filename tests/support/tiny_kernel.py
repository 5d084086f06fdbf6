"""A tiny kernel with launcher, binding and subject, to build with the real compiler."""

from __future__ import annotations

from pathlib import Path

from flashcore_ci.model.options import CompileOptions
from flashcore_ci.model.subject import BuildSpec, Description, EntrySpec

HEADER = """#pragma once
namespace { __device__ int calls = 0; }
__constant__ float factors[2] = {2.0f, 3.0f};
inline int blocks() { return 1; }
inline __device__ float scaled(float x) { float y = x * factors[calls & 1]; return y; }
"""
KERNEL = """#include "tiny.cuh"
extern "C" __global__ void __launch_bounds__(128) tiny(float* p) { p[threadIdx.x] = scaled(p[threadIdx.x]); }
namespace { struct Tuning { static constexpr int threads = 128; }; }
extern "C" const int tiny_threads = Tuning::threads * blocks();
"""
LAUNCHER = """#include <cuda_runtime.h>
extern "C" __global__ void tiny(float* p);
extern "C" int tiny_version() { return 7; }
extern "C" int tiny_launch(float* p) { tiny<<<1, 128>>>(p); return static_cast<int>(cudaGetLastError()); }
"""
EXTRA = 'extern "C" __global__ void extra(float* p) { p[threadIdx.x] = 0.0f; }\n'
FILES = {
    "kernel/include/tiny.cuh": HEADER,
    "kernel/tiny.cu": KERNEL,
    "kernel/launch.cu": LAUNCHER,
    "kernel/tiny.py": "import ctypes\n",
    "kernel/subject.py": "SUBJECT = 1\n",
}


def description(**changes):
    entry = EntrySpec(symbol="tiny", source="kernel/tiny.cu", max_registers=32, dynamic_shared_bytes=0)
    spec = {
        "library": "libtiny.so",
        "launchers": ("kernel/launch.cu",),
        "includes": ("kernel/include",),
        "binding": ("kernel/tiny.py",),
        "entries": (entry,),
        "compile": CompileOptions(architectures=("sm_90a",), standard="c++14", fast_math=True),
        **changes,
    }
    return Description(subject="tiny", file="kernel/subject.py", build=BuildSpec(**spec), problems=())


def written(root: Path) -> Path:
    for path, text in FILES.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def change(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new, 1))
