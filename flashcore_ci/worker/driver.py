"""Call the CUDA driver (libcuda) for what torch lacks."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from typing import Any

from flashcore_ci.worker import turns

SLOTS = 1024  # SM ids are below this, and not always contiguous
THREADS = 1024
FILL_THREADS = 512  # divides what an SM holds on all architectures
PERSISTING_L2_CACHE_SIZE = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE
NOT_READY = 600  # CUDA_ERROR_NOT_READY
BLOCKING_SYNC = 4  # CU_CTX_SCHED_BLOCKING_SYNC
NON_BLOCKING, WITHOUT_TIMES = 1, 2  # CU_STREAM_NON_BLOCKING, CU_EVENT_DISABLE_TIMING

PTX = b"""
.version 7.0
.target sm_70
.address_size 64

// One block for each SM: the first thread stores its SM's cycle counter and the GPU's nanosecond timer.
.visible .entry flashcore_ci_tick(.param .u64 readings)
{
    .reg .pred %idle; .reg .u32 %thread, %sm; .reg .u64 %slot, %offset, %cycles, %time;
    mov.u32 %thread, %tid.x; setp.ne.u32 %idle, %thread, 0; @%idle ret;
    ld.param.u64 %slot, [readings]; cvta.to.global.u64 %slot, %slot;
    mov.u32 %sm, %smid;
    mul.wide.u32 %offset, %sm, 16;
    add.u64 %slot, %slot, %offset;
    mov.u64 %cycles, %clock64;
    mov.u64 %time, %globaltimer;
    st.global.u64 [%slot], %cycles;
    st.global.u64 [%slot+8], %time;
    ret;
}

// As many threads as the GPU holds, for so long: nothing else can run meanwhile. Then it stores what tick does, unless given 0.
.visible .entry flashcore_ci_fill(.param .u64 nanoseconds, .param .u64 readings)
{
    .reg .pred %other, %early, %blind; .reg .u32 %thread, %sm;
    .reg .u64 %length, %began, %now, %passed, %slot, %offset, %cycles;
    mov.u32 %thread, %tid.x; setp.ne.u32 %other, %thread, 0; @%other bra together;
    ld.param.u64 %length, [nanoseconds];
    mov.u64 %began, %globaltimer;
wait:
    mov.u64 %now, %globaltimer; sub.u64 %passed, %now, %began;
    setp.lt.u64 %early, %passed, %length; @%early bra wait;
    ld.param.u64 %slot, [readings]; setp.eq.u64 %blind, %slot, 0; @%blind bra together;
    cvta.to.global.u64 %slot, %slot;
    mov.u32 %sm, %smid;
    mul.wide.u32 %offset, %sm, 16;
    add.u64 %slot, %slot, %offset;
    mov.u64 %cycles, %clock64;
    mov.u64 %now, %globaltimer;
    st.global.v2.u64 [%slot], {%cycles, %now};
together:
    bar.sync 0;
    ret;
}

// Marks in a tool's list of launches. The grid's width is the workload's index + 1.
.visible .entry flashcore_ci_begin() { ret; }
.visible .entry flashcore_ci_end() { ret; }
\0"""


class DriverError(RuntimeError):
    """A CUDA driver call failed."""


def start_beside() -> threading.Thread:
    """Make the CUDA context of torch in another thread, while torch is imported."""
    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")  # as torch does
    thread = threading.Thread(target=make_context, daemon=True)
    thread.start()
    return thread


def make_context() -> None:
    """Make the CUDA context of torch. Its waits sleep: twenty processes that spin would take all cores from those that work."""
    with contextlib.suppress(OSError):  # torch says later what is wrong
        cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        with turns.one():
            if not cuda.cuInit(0):
                cuda.cuDevicePrimaryCtxSetFlags_v2(0, BLOCKING_SYNC)
                cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)


def start_torch() -> None:
    """Make the CUDA context of torch, if there is none."""
    import torch

    with turns.one():
        torch.cuda.init()
        torch.zeros(1, device="cuda")


class Driver:
    """The driver, in torch's context."""

    def __init__(self) -> None:
        import torch

        start_torch()
        self._cuda = ctypes.CDLL("libcuda.so.1")
        properties = torch.cuda.get_device_properties(0)
        self._blocks = properties.multi_processor_count
        self._filling = self._blocks * (properties.max_threads_per_multi_processor // FILL_THREADS)
        self._events: dict[str, ctypes.c_void_p] = {}
        self._beside = ctypes.c_void_p()
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), PTX)
        self._functions: dict[str, ctypes.c_void_p] = {}
        for name in ("flashcore_ci_tick", "flashcore_ci_fill", "flashcore_ci_begin", "flashcore_ci_end"):
            self._functions[name] = ctypes.c_void_p()
            self._call("cuModuleGetFunction", ctypes.byref(self._functions[name]), module, name.encode("ascii"))

    def readings(self) -> Any:
        """Make room for a reading of every SM's clock."""
        import torch

        return torch.zeros((SLOTS, 2), dtype=torch.int64, device="cuda")

    def tick(self) -> Any:
        """Read every SM's clock at this point of the stream."""
        readings = self.readings()
        self._launch("flashcore_ci_tick", self._blocks, THREADS, ctypes.c_uint64(readings.data_ptr()))
        return readings

    def megahertz(self, before: Any, after: Any) -> float:
        """Return the median SM clock between two ticks, or NaN."""
        import torch

        cycles, nanoseconds = (after - before).cpu().double().unbind(1)
        seen = (before[:, 1] > 0).cpu() & (after[:, 1] > 0).cpu() & (nanoseconds > 0)
        if not bool(seen.any()):
            return float("nan")
        return float(torch.median(cycles[seen] / nanoseconds[seen])) * 1e3

    def fill(self, nanoseconds: int, readings: Any = None, *, stream: ctypes.c_void_p | None = None) -> None:
        """Occupy the whole GPU at this point of the stream. No kernel of any stream can run meanwhile. The end is read to ``readings``."""
        where = ctypes.c_uint64(0 if readings is None else readings.data_ptr())
        self._launch("flashcore_ci_fill", self._filling, FILL_THREADS, ctypes.c_uint64(nanoseconds), where, stream=stream)

    def fill_often(self, times: int, nanoseconds: int, readings: Any) -> None:
        """Occupy it so often. Another stream takes turns, so that no gap is left for kernels that wait. The first end is read."""
        if not self._beside:
            self._call("cuStreamCreate", ctypes.byref(self._beside), NON_BLOCKING)
        self.mark("part")
        self._call("cuStreamWaitEvent", self._beside, self._events["part"], 0)
        for number in range(times):
            self.fill(nanoseconds, None if number else readings, stream=self._beside if number % 2 else None)
        self.mark("joined", self._beside)
        self._call("cuStreamWaitEvent", _current_stream(), self._events["joined"], 0)

    def mark(self, name: str, stream: ctypes.c_void_p | None = None) -> None:
        """Record the event of this name at this point of the stream."""
        if name not in self._events:
            self._events[name] = ctypes.c_void_p()
            self._call("cuEventCreate", ctypes.byref(self._events[name]), 0)
        self._call("cuEventRecord", self._events[name], stream or _current_stream())

    def has_passed(self, name: str) -> bool:
        """Tell whether the device has come to a mark."""
        status = int(self._cuda.cuEventQuery(self._events[name]))
        if status not in {0, NOT_READY}:
            raise DriverError(f"cuEventQuery returned {status}")
        return not status

    def milliseconds(self, first: str, second: str) -> float:
        """Return the time between two marks that have passed."""
        value = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(value), self._events[first], self._events[second])
        return value.value

    def synchronize(self) -> None:
        """Wait until all streams are done."""
        self._call("cuCtxSynchronize")

    def begin(self, index: int) -> None:
        """Mark the beginning of this workload."""
        self._launch("flashcore_ci_begin", index + 1, 1)

    def end(self, index: int) -> None:
        """Mark its end."""
        self._launch("flashcore_ci_end", index + 1, 1)

    def profiler_start(self) -> None:
        """Switch the profiler on."""
        self._call("cuProfilerStart")

    def profiler_stop(self) -> None:
        """Switch the profiler off."""
        self._call("cuProfilerStop")

    def reset_persisting_lines(self) -> None:
        """Return persisting L2 lines to normal use."""
        self._call("cuCtxResetPersistingL2Cache")

    def persisting_bytes(self) -> int:
        """Return how many bytes of the L2 persist."""
        size = ctypes.c_size_t()
        self._call("cuCtxGetLimit", ctypes.byref(size), PERSISTING_L2_CACHE_SIZE)
        return size.value

    def _launch(self, name: str, blocks: int, threads: int, *arguments: Any, stream: ctypes.c_void_p | None = None) -> None:
        pointers = (ctypes.c_void_p * max(1, len(arguments)))(*(ctypes.addressof(value) for value in arguments))
        where = stream or _current_stream()
        self._call("cuLaunchKernel", self._functions[name], blocks, 1, 1, threads, 1, 1, 0, where, pointers, None)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise DriverError(f"{name} returned {status}")


class Hold:
    """Holds torch's current stream by a sleep of the driver's own thread, on a stream of its own.

    A kernel that spins would keep the GPU from other processes: 500 such holds took 5 s of a suite.
    """

    def __init__(self) -> None:
        self._cuda, self._stream, self._event = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
        self._sleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
        self._call("cuStreamCreate", ctypes.byref(self._stream), NON_BLOCKING)
        self._call("cuEventCreate", ctypes.byref(self._event), WITHOUT_TIMES)

    def __call__(self, microseconds: int) -> None:
        """Let the current stream wait for so long from now on."""
        self._call("cuLaunchHostFunc", self._stream, self._sleep, ctypes.c_void_p(microseconds))
        self._call("cuEventRecord", self._event, self._stream)
        self._call("cuStreamWaitEvent", _current_stream(), self._event, 0)

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._cuda, name)(*arguments):
            raise DriverError(f"{name} returned {status}")


def _current_stream() -> ctypes.c_void_p:
    import torch

    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
