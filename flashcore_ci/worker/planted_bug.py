"""Launch a kernel with a planted bug, which compute-sanitizer must report."""

from __future__ import annotations

import ctypes
from typing import Any

from flashcore_ci.worker.job import Job, Result

THREADS = 64

PTX = b"""
.version 7.0
.target sm_70
.address_size 64

// One thread writes past its allocation of four bytes.
.visible .entry flashcore_ci_control_memcheck(.param .u64 memory)
{
    .reg .pred %idle; .reg .u32 %thread; .reg .u64 %address;
    mov.u32 %thread, %tid.x; setp.ne.u32 %idle, %thread, 0; @%idle ret;
    ld.param.u64 %address, [memory]; cvta.to.global.u64 %address, %address;
    st.volatile.global.u32 [%address+4], %thread;
    ret;
}

// One thread reads uninitialised memory, and writes it back.
.visible .entry flashcore_ci_control_initcheck(.param .u64 memory)
{
    .reg .pred %idle; .reg .u32 %thread, %value; .reg .u64 %address;
    mov.u32 %thread, %tid.x; setp.ne.u32 %idle, %thread, 0; @%idle ret;
    ld.param.u64 %address, [memory]; cvta.to.global.u64 %address, %address;
    ld.volatile.global.u32 %value, [%address];
    st.volatile.global.u32 [%address], %value;
    ret;
}

// A value crosses from one warp to the other through shared memory without a barrier.
.visible .entry flashcore_ci_control_racecheck(.param .u64 memory)
{
    .reg .u32 %thread, %other, %value, %slot; .reg .u64 %address;
    .shared .align 4 .b8 exchange[256];
    mov.u32 %thread, %tid.x;
    mov.u32 %slot, exchange;
    mad.lo.u32 %other, %thread, 4, %slot;
    st.volatile.shared.u32 [%other], %thread;
    xor.b32 %thread, %thread, 32;
    mad.lo.u32 %other, %thread, 4, %slot;
    ld.volatile.shared.u32 %value, [%other];
    ld.param.u64 %address, [memory]; cvta.to.global.u64 %address, %address;
    st.volatile.global.u32 [%address], %value;
    ret;
}

// Half of the second warp skips a block barrier, and has work to do afterwards.
.visible .entry flashcore_ci_control_synccheck(.param .u64 memory)
{
    .reg .pred %passes; .reg .u32 %thread; .reg .u64 %address;
    mov.u32 %thread, %tid.x;
    setp.ge.u32 %passes, %thread, 48;
    @%passes bra after;
    bar.sync 0;
after:
    ld.param.u64 %address, [memory]; cvta.to.global.u64 %address, %address;
    st.volatile.global.u32 [%address], %thread;
    ret;
}
\0"""


def run(job: Job, result: Result) -> bool:
    """Write one outcome, ``control``."""
    kernel = f"flashcore_ci_control_{job.options['check']}"
    result.start("control")
    result.finish("control", {"kernel": kernel, "status": _launch(kernel)})
    return True


def _launch(kernel: str) -> int:
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: Any) -> None:
        status = getattr(cuda, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned {status}")

    device, context = ctypes.c_int(), ctypes.c_void_p()
    module, function, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), PTX)
    call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode("ascii"))
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4))
    argument = ctypes.c_void_p(ctypes.addressof(memory))
    call("cuLaunchKernel", function, 1, 1, 1, THREADS, 1, 1, 0, None, ctypes.byref(argument), None)
    return int(cuda.cuCtxSynchronize())
