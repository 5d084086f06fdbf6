"""The checklist for a self-hosted runner, in the order of docs/runner.md. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from flashcore_ci.adapters.host import HostInfo
from flashcore_ci.adapters.nvml import GpuState, other_users, unnamed_users
from flashcore_ci.doctor.checks import GIB, HARMFUL, MIN_DISK_BYTES

PAGE = "docs/runner.md"
LISTENER = "Runner.Listener"
DCGM = frozenset({"nv-hostengine", "dcgm-exporter", "dcgm"})


class Status(StrEnum):
    """The result of one item."""

    VERIFIED = "verified"
    FAILED = "failed"
    UNSEEN = "cannot be seen from here"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerFacts:
    """What the items are judged by. None: no GPU (``state``), not tried (``counters_work``). ``free`` is in bytes."""

    host: HostInfo
    state: GpuState | None
    counters_work: bool | None
    passwordless_sudo: bool
    allow: tuple[str, ...]
    lock: str
    lock_is_writable: bool
    lock_is_named: bool
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecklistItem:
    """One item. Verified ones have no ``fix``."""

    id: str
    status: Status
    fact: str
    fix: str = ""


ItemResult = tuple[Status, str]


def check(facts: RunnerFacts) -> tuple[ChecklistItem, ...]:
    """Check every item, in order."""
    items = []
    for name, (_, check_item, fix) in ITEMS.items():
        status, fact = check_item(facts)
        items.append(ChecklistItem(id=name, status=status, fact=fact, fix="" if status is Status.VERIFIED else fix))
    return tuple(items)


def render(items: tuple[ChecklistItem, ...]) -> str:
    """Write the items, their fixes and the totals."""
    width, names = max(len(item.status) for item in items), max(len(item.id) for item in items)
    lines = []
    for item in items:
        lines.append(f"{item.status:<{width}}  {item.id:<{names}}  {item.fact}")
        if item.fix:
            lines.append(f"{'':<{width + names + 2}}  fix: {item.fix}")
    counts = {status: sum(item.status is status for item in items) for status in Status}
    sums = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return "\n".join([*lines, "", f"runner: {sums} ({PAGE})"]) + "\n"


def _ephemeral(facts: RunnerFacts) -> ItemResult:
    if facts.host.ephemeral is None:
        return Status.UNSEEN, "no settings of a GitHub runner near this job"
    if facts.host.ephemeral:
        return Status.VERIFIED, "the runner takes one job and ends"
    return Status.FAILED, "the runner and the files of its jobs stay after a job"


def _user(facts: RunnerFacts) -> ItemResult:
    if facts.host.root and not facts.host.in_container:
        return Status.FAILED, "jobs run as root of this machine"
    if facts.passwordless_sudo:
        return Status.FAILED, "jobs become root with sudo, without a password"
    return Status.VERIFIED, "root, but only in a container" if facts.host.root else "not root, and sudo asks for a password"


def _secrets(facts: RunnerFacts) -> ItemResult:
    names = (*facts.host.secrets, *facts.host.credentials)
    if names:
        return Status.FAILED, f"the kernel's code could read {', '.join(names)}"
    return Status.VERIFIED, "none in the environment, none in the home folder"


def _containers(facts: RunnerFacts) -> ItemResult:
    if facts.host.sockets:
        return Status.FAILED, f"jobs may start containers through {', '.join(facts.host.sockets)}, as root of this machine"
    if facts.host.capabilities is None:
        return Status.UNSEEN, "the capabilities of this process"
    if facts.host.is_admin and facts.host.in_container:
        return Status.FAILED, "the container has CAP_SYS_ADMIN: jobs can leave it"
    inside = facts.host.in_container
    return Status.VERIFIED, "in a container without CAP_SYS_ADMIN" if inside else "jobs cannot start containers"


def _counters(facts: RunnerFacts) -> ItemResult:
    if facts.counters_work:
        return Status.VERIFIED, "ncu counted a launch just now"
    if facts.host.profiling_is_restricted is None:
        return Status.UNSEEN, "the driver's parameters"
    if facts.host.profiling_is_restricted and not facts.host.is_admin:
        return Status.FAILED, "the driver shows counters only to administrators"
    if facts.host.profiling_is_restricted:
        return Status.FAILED, "readable only with CAP_SYS_ADMIN, which the kernel's code would have too"
    return Status.VERIFIED, "the driver shows them to every user"


def _dcgm(facts: RunnerFacts) -> ItemResult:
    running = sorted(DCGM & set(facts.host.processes))
    if facts.counters_work:
        return Status.VERIFIED, f"{', '.join(running)} holds no counters now" if running else "no program holds the counters"
    if running and facts.counters_work is False:
        return Status.FAILED, f"{', '.join(running)} runs, and ncu cannot count"
    if running or facts.host.in_container:
        return Status.UNSEEN, f"whether {running[0] if running else 'DCGM outside of this container'} holds the counters"
    return Status.VERIFIED, "DCGM does not run"


def _clocks(facts: RunnerFacts) -> ItemResult:
    if facts.state is None:
        return Status.UNSEEN, "the GPU"
    harm = sorted(HARMFUL & set(facts.state.reasons))
    if harm:
        return Status.FAILED, f"limited by {', '.join(harm)}"
    if facts.state.persistent is False:
        return Status.FAILED, "persistence mode is off: the driver forgets clocks and settings between jobs"
    if facts.state.persistent is None:
        return Status.UNSEEN, "persistence mode"
    return (Status.VERIFIED, f"persistence mode is on, no throttling ({facts.state.sm_clock} of {facts.state.max_sm_clock} MHz)")


def _one_gpu(facts: RunnerFacts) -> ItemResult:
    gpus, runners = facts.host.gpus, facts.host.processes.count(LISTENER)
    if not gpus:
        return Status.UNSEEN, "no GPU"
    if gpus > 1:
        return Status.FAILED, f"this job sees {gpus} GPUs"
    if runners > gpus:
        return Status.FAILED, f"{runners} runners share one GPU"
    return Status.VERIFIED, "this job sees one GPU"


def _alone(facts: RunnerFacts) -> ItemResult:
    if facts.state is None:
        return Status.UNSEEN, "the GPU"
    others = other_users(facts.state.users, facts.allow)
    if others:
        return Status.FAILED, f"also on this GPU: {', '.join(f'{user.name} ({user.pid})' for user in others)}"
    if unnamed_users(facts.state.users):
        return Status.UNSEEN, "other users of the GPU: they run outside of this container"
    return Status.VERIFIED, "no other process uses the GPU"


def _lock(facts: RunnerFacts) -> ItemResult:
    if not facts.lock_is_writable:
        return Status.FAILED, f"{facts.lock} cannot be written"
    if facts.host.in_container and not facts.lock_is_named:
        return Status.UNSEEN, f"whether other containers share {facts.lock}"
    return Status.VERIFIED, f"in {facts.lock}"


def _cleaning(facts: RunnerFacts) -> ItemResult:
    if facts.host.leftovers:
        return Status.FAILED, f"an earlier job left {', '.join(facts.host.leftovers)}"
    if facts.host.ephemeral or facts.host.has_cleanup_hook:
        hook = facts.host.has_cleanup_hook
        return Status.VERIFIED, "a hook cleans up after each job" if hook else "the machine ends with the job"
    if facts.host.ephemeral is None:
        return Status.UNSEEN, "what happens after a job"
    return Status.FAILED, "the runner stays, and no hook cleans up after a job"


def _disk(facts: RunnerFacts) -> ItemResult:
    fact = f"{facts.free / GIB:.1f} GiB free of {MIN_DISK_BYTES / GIB:.0f} GiB needed"
    return (Status.FAILED if facts.free < MIN_DISK_BYTES else Status.VERIFIED), fact


ITEMS: dict[str, tuple[str, Callable[[RunnerFacts], ItemResult], str]] = {
    "ephemeral": ("One job, then gone", _ephemeral, "./config.sh --ephemeral …, or a just-in-time configuration for each job"),
    "user": ("Not root", _user, "sudo useradd --system runner; no line for it in /etc/sudoers.d"),
    "secrets": ("Nothing to steal", _secrets, "unset the variables in the runner's .env; move the files to another user"),
    "containers": ("No way out of the container", _containers, "no --privileged, no docker.sock; gpasswd --delete runner docker"),
    "counters": (
        "Performance counters for everyone",
        _counters,
        "echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/profiling.conf, and reboot",
    ),
    "dcgm": ("DCGM does not hold the counters", _dcgm, "dcgmi profpause before each job and dcgmi profresume after it"),
    "clocks": (
        "Clocks that keep their settings",
        _clocks,
        "sudo systemctl enable --now nvidia-persistenced; nvidia-smi -q -d PERFORMANCE",
    ),
    "one-gpu": ("One GPU, one runner", _one_gpu, "docker run --gpus device=GPU-…, one runner for each GPU"),
    "alone": (
        "No other process on the GPU",
        _alone,
        "stop the other processes, or name those that may stay: --allow-process NAME",
    ),
    "lock": ("One lock for all", _lock, "mount one folder of the host into every container and name it in FLASHCORE_CI_LOCK_DIR"),
    "cleaning": (
        "Nothing is left behind",
        _cleaning,
        "ACTIONS_RUNNER_HOOK_JOB_COMPLETED=/opt/runner/clean.sh in the runner's .env",
    ),
    "disk": ("Disk", _disk, "make room, or name a larger disk in FLASHCORE_CI_HOME"),
}
"""Each item: its title, its check, and its fix."""
