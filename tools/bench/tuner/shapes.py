"""wgmma in widths that the kernel does not use yet, so that the tuner can try them without touching the kernel. Pure."""

from __future__ import annotations

import re

HEADER = "kernel/include/flashcore/ptx/wgmma.cuh"


def defined(header: str) -> set[int]:
    """The widths that the kernel's own header defines."""
    return {
        int(width)
        for width in re.findall(r'^\s*FLASHCORE_DEFINE_WGMMA\((?:__half, "f16"|ELEMENT, TYPE), (\d+),', header, re.MULTILINE)
    }


def specialisation(width: int) -> str:
    """``Wgmma<__half, width>`` as ptx/wgmma.cuh would define it."""
    count = width // 2
    registers = ", ".join(f"%{index}" for index in range(count))
    operands = ", ".join(f'"+f"(d[{index}])' for index in range(count))
    names = [f"%{count + index}" for index in range(7)]
    head = f"wgmma.mma_async.sync.aligned.m64n{width}k16.f32.f16.f16 {{{registers}}}"
    return f"""
template <>
struct flashcore::ptx::Wgmma<__half, {width}> {{
    __device__ __forceinline__ static void shared(float (&d)[{count}], uint64_t a, uint64_t b, int accumulate) {{
        asm volatile(
            "{{.reg .pred p; setp.ne.b32 p, {names[2]}, 0; {head}, {names[0]}, {names[1]}, p, 1, 1, 0, 0;}}"
            : {operands}
            : "l"(a), "l"(b), "r"(accumulate));
    }}
    template <Major kMajor>
    __device__ __forceinline__ static void registers(float (&d)[{count}], const uint32_t* a, uint64_t b, int accumulate) {{
        asm volatile(
            "{{.reg .pred p; setp.ne.b32 p, {names[5]}, 0; {head}, {{{", ".join(names[:4])}}}, {names[4]}, p, 1, 1, {names[6]};}}"
            : {operands}
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(static_cast<int>(kMajor)));
    }}
}};
"""
