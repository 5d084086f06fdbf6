"""The diagnoses of ``doctor``. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flashcore_ci.adapters.nvml import GpuState, other_users, unnamed_users
from flashcore_ci.build.toolchain import DEFAULT, driver_floor
from flashcore_ci.model import devices
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.reading import Missing

MIN_DISK_BYTES = 2 << 30
HARMFUL = frozenset({"hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "power brake"})
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One fact, and the fix if it is a problem."""

    name: str
    fact: str
    problem: bool = False
    fix: str = ""


def diagnose_gpu(state: GpuState, allow: tuple[str, ...] = (), cuda: str = DEFAULT) -> tuple[Diagnosis, ...]:
    """Diagnose the GPU. ``cuda`` is the version of the toolchain that builds for it."""
    clocks = f"SM {state.sm_clock} of {state.max_sm_clock} MHz, {state.power:.0f} of {state.power_limit:.0f} W"
    return (
        Diagnosis(name="gpu", fact=f"{state.name}, {state.memory / GIB:.0f} GiB, {state.uuid}"),
        _architecture(state),
        _roofs(state),
        _driver(state, cuda),
        _compute_mode(state),
        _ecc(state),
        Diagnosis(name="clocks", fact=clocks),
        _throttle(state),
        _processes(state, allow),
    )


def diagnose_counters(complaint: Missing | None) -> Diagnosis:
    """Tell whether ncu can read counters. ``complaint`` is its error."""
    if complaint is None:
        return Diagnosis(name="counters", fact="readable")
    return Diagnosis(name="counters", fact=complaint.message, problem=True, fix=NEXT_STEP[complaint.code])


def diagnose_disk(name: str, free: int) -> Diagnosis:
    """Tell whether ``free`` bytes are enough."""
    small = free < MIN_DISK_BYTES
    fix = f"free {MIN_DISK_BYTES / GIB:.0f} GiB on this disk" if small else ""
    return Diagnosis(name="disk", fact=f"{free / GIB:.1f} GiB free for {name}", problem=small, fix=fix)


def diagnose_aside(found: Sequence[tuple[str, str, Path]]) -> tuple[Diagnosis, ...]:
    """Name each GPU that a fleet put aside in the last week."""
    return tuple(
        Diagnosis(name="aside", fact=f"{gpu} failed twice: {why}", problem=True, fix=f"dcgmi diag -r 3, then: rm {file}")
        for gpu, why, file in found
    )


def render(diagnoses: tuple[Diagnosis, ...]) -> str:
    """Write the diagnoses, their fixes and the total."""
    width = max(len(line.name) for line in diagnoses)
    text = []
    for line in diagnoses:
        text.append(f"{'problem' if line.problem else 'ok     '}  {line.name:<{width}}  {line.fact}")
        if line.fix:
            text.append(f"{'':<{width + 9}}  fix: {line.fix}")
    problems = sum(line.problem for line in diagnoses)
    text += ["", "this machine can gate" if not problems else f"this machine cannot measure: {problems} to fix"]
    return "\n".join(text) + "\n"


def _architecture(state: GpuState) -> Diagnosis:
    fact, found = f"compute capability {state.compute_capability}", devices.best(state.compute_capability)
    if found is None:
        fix = f"use a GPU of {', '.join(devices.ARCHITECTURES)}: kernels are built for these"
        return Diagnosis(name="arch", fact=fact, problem=True, fix=fix)
    limits = f"{found.shared_bytes >> 10} KiB shared memory and {found.registers} registers per block"
    return Diagnosis(name="arch", fact=f"{fact} ({found.name}): {limits}, {found.thread_registers} registers per thread")


def _roofs(state: GpuState) -> Diagnosis:
    gpu = devices.GPUS.get(state.name)
    if gpu is None:
        return Diagnosis(name="roofs", fact="unknown for this product: [ridge] of the suite must give flops and bandwidth")
    peaks = f"{gpu.flops / 1e12:g} TFLOP/s and {gpu.bandwidth / 1e12:g} TB/s"
    return Diagnosis(name="roofs", fact=f"{peaks}, ridge at {gpu.flops / gpu.bandwidth:.0f} FLOP/byte ({gpu.source})")


def _driver(state: GpuState, cuda: str) -> Diagnosis:
    branch, floor = state.driver.split(".")[0], driver_floor(cuda)
    old = not (branch.isdecimal() and int(branch) >= floor)
    fix = f"install driver {floor} or newer: CUDA {cuda} needs it" if old else ""
    return Diagnosis(name="driver", fact=f"{state.driver} (CUDA {state.cuda})", problem=old, fix=fix)


def _compute_mode(state: GpuState) -> Diagnosis:
    """Exclusive modes admit one process, but Nsight Compute and the sanitizer start a second."""
    bad = state.mig or state.compute_mode == "prohibited"
    fix = "use the whole GPU: nvidia-smi -mig 0, nvidia-smi -c DEFAULT (as root)" if bad else ""
    return Diagnosis(name="mode", fact=f"{state.compute_mode}{', MIG is on' if state.mig else ''}", problem=bad, fix=fix)


def _ecc(state: GpuState) -> Diagnosis:
    if state.ecc is None:
        return Diagnosis(name="ecc", fact="this GPU has no ECC")
    bad = bool(state.ecc_errors)
    count = f", {state.ecc_errors} uncorrected errors since boot" if bad else ""
    fix = "reset the GPU, or take the machine out of service" if bad else ""
    return Diagnosis(name="ecc", fact=f"{'on' if state.ecc else 'off'}{count}", problem=bad, fix=fix)


def _throttle(state: GpuState) -> Diagnosis:
    bad = bool(HARMFUL & set(state.reasons))
    fix = NEXT_STEP[Code.THROTTLED] if bad else ""
    return Diagnosis(name="throttle", fact=", ".join(state.reasons) or "none", problem=bad, fix=fix)


def _processes(state: GpuState, allow: tuple[str, ...]) -> Diagnosis:
    others, hidden = other_users(state.users, allow), unnamed_users(state.users)
    if others:
        named = ", ".join(f"{user.name} ({user.pid})" for user in others)
        return Diagnosis(name="processes", fact=f"others use this GPU: {named}", problem=True, fix=NEXT_STEP[Code.GPU_BUSY])
    if hidden:
        return Diagnosis(name="processes", fact=f"unknown: the GPU has {len(hidden)} users that this machine cannot name")
    return Diagnosis(name="processes", fact="no others")
