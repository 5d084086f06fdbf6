"""Run a decode kernel on the CPU. The nightly tests run the other kernels, and planted defects."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from emulated import Library, ViolationError, decode, encode
from emulated_cases import Decode
from emulator_build import build
from emulator_rewrite import rewrite

SMALL = Decode(64, (140, 1), heads=2, page_size=16, splits=2, max_ctas=2)
UNWRITTEN = """
#include <cuda_runtime.h>

struct Arguments {
    int size, use;
    int* out;  // two numbers
};

__global__ void load(const Arguments arguments) {
    extern __shared__ int memory[];
    const int value = __shfl_sync(~0u, memory[threadIdx.x], 0);  // a shuffle, or the compiler drops the load
    if (threadIdx.x > 0) return;
    if (arguments.use == 1) arguments.out[1] = value;
    if (arguments.use == 2 && value > 0) __syncwarp(1);
    if (arguments.use == 3) arguments.out[value & 1] = 0;
    if (arguments.use == 4) atomicAdd(arguments.out, value & 256);
    if (arguments.use == 5 && value != 0) arguments.out[0] = 0;
    arguments.out[0] = arguments.out[0] + 1;
}

extern "C" int launch(const Arguments* arguments) {
    return cudaLaunchKernelEx(new cudaLaunchConfig_t{1, 32, 128, nullptr}, load, *arguments);
}
"""
ABI = 'extern "C" const char* flashcore_error_string() { return "refused"; }'


class Unwritten(ctypes.Structure):
    """The arguments of that kernel."""

    _fields_ = (("size", ctypes.c_int32), ("use", ctypes.c_int32), ("out", ctypes.c_void_p))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    path = tmp_path_factory.mktemp("library") / "decode.so"
    return Library(build(path, ["flashcore_decode_d64_fp16"], ["decode"]))


@pytest.mark.parametrize("late", [True, False])
def test_decode(library: Library, *, late: bool) -> None:
    library.configure(seed=3, late=late)
    SMALL.run(library)


def test_a_wrong_workspace_is_found(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Library, "zeros", lambda self, name, size: self.empty(name, (size,), "byte"))
    with pytest.raises(ViolationError, match="atomic: memory that nobody has written"):
        SMALL.run(library)
    library.free()


@pytest.fixture(scope="module")
def unwritten(tmp_path_factory: pytest.TempPathFactory) -> Library:
    kernel = tmp_path_factory.mktemp("kernel")
    for name, text in (("src/abi.cu", ABI), ("instantiations/load.cu", UNWRITTEN)):
        (kernel / name).parent.mkdir()
        (kernel / name).write_text(text)
    return Library(build(kernel / "load.so", ["load"], [], kernel=kernel))


def load_unwritten(library: Library, use: int, *, replays: bool) -> list[float]:
    out = library.zeros("out", 8)
    try:
        library.call("launch", Unwritten(use=use, out=out.address), replays=replays)
        out.kind, out.shape = "int32", (2,)
        return out.values()
    finally:
        library.free()


def test_an_unwritten_value_may_be_dropped(unwritten: Library) -> None:
    assert load_unwritten(unwritten, 0, replays=True) == [1, 0]  # each launch starts from the same memory
    with pytest.raises(ViolationError, match=r"load: reads shared address \d+, which nobody has written$"):
        load_unwritten(unwritten, 0, replays=False)


@pytest.mark.parametrize(
    ("use", "found"),
    [(1, "0 there: other results"), (2, "1 there: CTA 0"), (3, "0 there: CTA 0"), (4, "0 there: CTA 0"), (5, "0 there: CTA 0")],
    ids=["result", "branch", "address", "atomic", "store"],
)
def test_an_unwritten_value_that_matters_is_found(unwritten: Library, use: int, found: str) -> None:
    with pytest.raises(ViolationError, match=f"nobody has written, and it matters. With {found}"):
        load_unwritten(unwritten, use, replays=True)


def test_asm_becomes_a_call() -> None:
    text = '# 7 "a/b.cuh"\nvoid f(float& x, int y) { asm volatile("add %0, %1;" : "+f"(x) : "r"(y + 1) : "memory"); }\n'
    assert rewrite(text).splitlines()[1] == (
        'void f(float& x, int y) { do { static ::emulator::Site emulator_site{"add %0, %1;", "a/b.cuh:7"}; '
        "const ::emulator::Operand emulator_operands[] = {::emulator::output<'f', true>(x), ::emulator::input<'r'>(y + 1)}; "
        "::emulator::execute(emulator_site, emulator_operands, 2); } while (false); }"
    )


def test_shared_memory_becomes_the_emulators() -> None:
    assert rewrite("extern __shared__ alignas(1024) uint8_t memory[];") == (
        "uint8_t* const memory = static_cast<uint8_t*>(::emulator::dynamic_shared());"
    )
    assert "using emulator_type_sums = int[32];" in rewrite("__shared__ int sums[32];")


def test_rounding() -> None:
    assert decode(encode([1.0, -3.14159, 1e9, 0.0019], "e4m3"), "e4m3") == [1.0, -3.25, 448.0, 0.001953125]
    assert decode(encode([1.00390625, -3.14159], "bf16"), "bf16") == [1.0, -3.140625]


def test_a_mutant_needs_its_text(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has 0 times"):
        build(tmp_path / "none.so", [], [], mutations={"flashcore/ptx/math.cuh": ("no such text", "")})
