"""The diagnoses of ``doctor``. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from flashcore_ci.adapters.nvml import GpuState, other_users, unnamed_users
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.reading import Missing

ARCHITECTURE = "9.0"
MIN_DRIVER = 580
"""The first driver branch that runs programs built with CUDA 13.0."""
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


def diagnose_gpu(state: GpuState, allow: tuple[str, ...] = ()) -> tuple[Diagnosis, ...]:
    """Diagnose the GPU."""
    clocks = f"SM {state.sm_clock} of {state.max_sm_clock} MHz, {state.power:.0f} of {state.power_limit:.0f} W"
    return (
        Diagnosis(name="gpu", fact=f"{state.name}, {state.memory / GIB:.0f} GiB, {state.uuid}"),
        _architecture(state),
        _driver(state),
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
    other = state.compute_capability != ARCHITECTURE
    fix = "use an H100, H200 or GH200: the kernels are built for Hopper (sm_90a)" if other else ""
    return Diagnosis(name="arch", fact=f"compute capability {state.compute_capability}", problem=other, fix=fix)


def _driver(state: GpuState) -> Diagnosis:
    branch = state.driver.split(".")[0]
    old = not (branch.isdecimal() and int(branch) >= MIN_DRIVER)
    fix = f"install driver {MIN_DRIVER} or newer: CUDA 13.0 needs it" if old else ""
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
