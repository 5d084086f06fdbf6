"""What ``doctor`` makes of the facts: pure, one line a fact."""

from __future__ import annotations

from dataclasses import dataclass

from flashcore_ci.adapters.nvml import State, other_users, unnamed_users
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.reading import Missing

ARCHITECTURE = "9.0"
DRIVER_FLOOR = 580
"""The first driver branch that runs programs built with CUDA 13.0."""
DISK_FLOOR = 2 << 30
HARMFUL = frozenset({"hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "power brake"})
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing looked at: what was found, and, where that is a problem, what fixes it."""

    name: str
    found: str
    problem: bool = False
    fix: str = ""


def gpu(state: State, allow: tuple[str, ...] = ()) -> tuple[Line, ...]:
    """Everything that the driver says of the GPU."""
    return (
        Line(name="gpu", found=f"{state.name}, {state.memory / GIB:.0f} GiB, {state.uuid}"),
        _architecture(state),
        _driver(state),
        _compute_mode(state),
        _ecc(state),
        Line(
            name="clocks",
            found=f"SM {state.sm_clock} of {state.max_sm_clock} MHz, {state.power:.0f} of {state.power_limit:.0f} W",
        ),
        _throttle(state),
        _processes(state, allow),
    )


def counters(complaint: Missing | None) -> Line:
    """Whether Nsight Compute may read the performance counters, by what it said when it tried."""
    if complaint is None:
        return Line(name="counters", found="readable")
    return Line(name="counters", found=complaint.message, problem=True, fix=NEXT_STEP[complaint.code])


def disk(name: str, free: int) -> Line:
    """Whether there is room for the toolchain, the builds and a run (``free`` in bytes)."""
    small = free < DISK_FLOOR
    fix = f"make room: {DISK_FLOOR / GIB:.0f} GiB are needed" if small else ""
    return Line(name="disk", found=f"{free / GIB:.1f} GiB free for {name}", problem=small, fix=fix)


def render(lines: tuple[Line, ...]) -> str:
    """One line a fact, the fix under each problem, and the sum."""
    width = max(len(line.name) for line in lines)
    text = []
    for line in lines:
        text.append(f"{'problem' if line.problem else 'ok     '}  {line.name:<{width}}  {line.found}")
        if line.fix:
            text.append(f"{'':<{width + 9}}  fix: {line.fix}")
    problems = sum(line.problem for line in lines)
    text += [
        "",
        "this machine can gate" if not problems else f"this machine cannot gate with live measurements: {problems} to fix",
    ]
    return "\n".join(text) + "\n"


def _architecture(state: State) -> Line:
    other = state.compute_capability != ARCHITECTURE
    fix = "the kernels are built for Hopper (sm_90a): use an H100, H200 or GH200" if other else ""
    return Line(name="arch", found=f"compute capability {state.compute_capability}", problem=other, fix=fix)


def _driver(state: State) -> Line:
    branch = state.driver.split(".")[0]
    old = not (branch.isdecimal() and int(branch) >= DRIVER_FLOOR)
    fix = f"install driver {DRIVER_FLOOR} or newer: CUDA 13.0 needs it" if old else ""
    return Line(name="driver", found=f"{state.driver} (CUDA {state.cuda})", problem=old, fix=fix)


def _compute_mode(state: State) -> Line:
    """Exclusive modes admit one process: Nsight Compute and the sanitizer start their target beside themselves."""
    bad = state.mig or state.compute_mode == "prohibited"
    fix = "give the whole GPU: nvidia-smi -mig 0, nvidia-smi -c DEFAULT (as root)" if bad else ""
    return Line(name="mode", found=f"{state.compute_mode}{', MIG is on' if state.mig else ''}", problem=bad, fix=fix)


def _ecc(state: State) -> Line:
    if state.ecc is None:
        return Line(name="ecc", found="this GPU has none")
    bad = bool(state.ecc_errors)
    count = f", {state.ecc_errors} uncorrected errors since boot" if bad else ""
    fix = "reset the GPU, or take the machine out of service" if bad else ""
    return Line(name="ecc", found=f"{'on' if state.ecc else 'off'}{count}", problem=bad, fix=fix)


def _throttle(state: State) -> Line:
    bad = bool(HARMFUL & set(state.reasons))
    fix = NEXT_STEP[Code.THROTTLED] if bad else ""
    return Line(name="throttle", found=", ".join(state.reasons) or "none", problem=bad, fix=fix)


def _processes(state: State, allow: tuple[str, ...]) -> Line:
    others, hidden = other_users(state.users, allow), unnamed_users(state.users)
    if others:
        named = ", ".join(f"{user.name} ({user.pid})" for user in others)
        return Line(name="processes", found=f"others use this GPU: {named}", problem=True, fix=NEXT_STEP[Code.GPU_BUSY])
    if hidden:
        return Line(name="processes", found=f"cannot tell: {len(hidden)} that this machine cannot name use the GPU")
    return Line(name="processes", found="none besides ours")
