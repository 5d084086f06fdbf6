"""Run a decode kernel on the CPU. The nightly tests run the other kernels, and planted defects."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulated import Library, ViolationError, decode, encode
from emulated_cases import Decode
from emulator_build import build
from emulator_rewrite import rewrite

SMALL = Decode(64, (140, 1), heads=2, page_size=16, splits=2, max_ctas=2)


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
