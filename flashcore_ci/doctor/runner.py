"""The checklist for a self-hosted runner: pure. ``docs/runner.md`` has a section for each item, in this order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from flashcore_ci.adapters.host import HostInfo
from flashcore_ci.adapters.nvml import State, other_users, unnamed_users
from flashcore_ci.doctor.checks import DISK_FLOOR, GIB, HARMFUL

PAGE = "docs/runner.md"
LISTENER = "Runner.Listener"
DCGM = frozenset({"nv-hostengine", "dcgm-exporter", "dcgm"})


class Standing(StrEnum):
    """How an item stands."""

    VERIFIED = "verified"
    FAILED = "failed"
    UNSEEN = "cannot be seen from here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that the items are judged by.

    ``state`` is None without a GPU that answers; ``counted`` says whether ncu could count just now, None if it was not tried;
    ``sudo`` whether this user becomes root without being asked. ``lock`` is the folder of the GPU's lock, ``locks_shared``
    whether the person who set up the machine named it. ``free`` is in bytes.
    """

    host: HostInfo
    state: State | None
    counted: bool | None
    sudo: bool
    allow: tuple[str, ...]
    lock: str
    lock_is_writable: bool
    locks_shared: bool
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of the list: what was found, and the command that fixes it unless it was verified."""

    id: str
    title: str
    standing: Standing
    found: str
    fix: str = ""


Answer = tuple[Standing, str]


def examine(facts: Facts) -> tuple[Item, ...]:
    """Every item, in the order of the page."""
    items = []
    for name, (title, ask, fix) in ITEMS.items():
        standing, found = ask(facts)
        said = "" if standing is Standing.VERIFIED else fix
        items.append(Item(id=name, title=title, standing=standing, found=found, fix=said))
    return tuple(items)


def render(items: tuple[Item, ...]) -> str:
    """One line an item, the fix under each that was not verified, and the sum."""
    width, names = max(len(item.standing) for item in items), max(len(item.id) for item in items)
    lines = []
    for item in items:
        lines.append(f"{item.standing:<{width}}  {item.id:<{names}}  {item.found}")
        if item.fix:
            lines.append(f"{'':<{width + names + 2}}  fix: {item.fix}")
    counts = {standing: sum(item.standing is standing for item in items) for standing in Standing}
    sums = ", ".join(f"{count} {standing}" for standing, count in counts.items() if count)
    return "\n".join([*lines, "", f"runner: {sums} ({PAGE})"]) + "\n"


def _ephemeral(facts: Facts) -> Answer:
    if facts.host.ephemeral is None:
        return Standing.UNSEEN, "no settings of a GitHub runner near this job"
    if facts.host.ephemeral:
        return Standing.VERIFIED, "the runner takes one job and is gone"
    return Standing.FAILED, "the runner stays after a job, and what a job left stays with it"


def _user(facts: Facts) -> Answer:
    if facts.host.root and not facts.host.in_container:
        return Standing.FAILED, "jobs run as root of this machine"
    if facts.sudo:
        return Standing.FAILED, "jobs become root with sudo, and nobody asks"
    return Standing.VERIFIED, "root, of a container only" if facts.host.root else "not root, and sudo asks"


def _secrets(facts: Facts) -> Answer:
    found = (*facts.host.secrets, *facts.host.credentials)
    if found:
        return Standing.FAILED, f"the kernel's code could read {', '.join(found)}"
    return Standing.VERIFIED, "none in the environment, none in the home folder"


def _containers(facts: Facts) -> Answer:
    if facts.host.sockets:
        return Standing.FAILED, f"jobs may start containers through {', '.join(facts.host.sockets)}, as root of this machine"
    if facts.host.capabilities is None:
        return Standing.UNSEEN, "the capabilities of this process"
    if facts.host.is_admin and facts.host.in_container:
        return Standing.FAILED, "the container has CAP_SYS_ADMIN: its walls hold nobody"
    return (
        Standing.VERIFIED,
        "in a container without CAP_SYS_ADMIN" if facts.host.in_container else "no container, and no way to start one",
    )


def _counters(facts: Facts) -> Answer:
    if facts.counted:
        return Standing.VERIFIED, "ncu counted a launch just now"
    if facts.host.profiling_is_restricted is None:
        return Standing.UNSEEN, "the driver's parameters"
    if facts.host.profiling_is_restricted and not facts.host.is_admin:
        return Standing.FAILED, "the driver shows counters to administrators only"
    if facts.host.profiling_is_restricted:
        return Standing.FAILED, "readable by CAP_SYS_ADMIN alone, which the kernel's code would have too"
    return Standing.VERIFIED, "the driver shows them to every user"


def _dcgm(facts: Facts) -> Answer:
    seen = sorted(DCGM & set(facts.host.processes))
    if facts.counted:
        return Standing.VERIFIED, f"{', '.join(seen)} holds no counters now" if seen else "nobody holds the counters"
    if seen and facts.counted is False:
        return Standing.FAILED, f"{', '.join(seen)} runs, and ncu cannot count"
    if seen or facts.host.in_container:
        return Standing.UNSEEN, f"whether {seen[0] if seen else 'DCGM outside of this container'} holds the counters"
    return Standing.VERIFIED, "DCGM does not run"


def _clocks(facts: Facts) -> Answer:
    if facts.state is None:
        return Standing.UNSEEN, "the GPU"
    harm = sorted(HARMFUL & set(facts.state.reasons))
    if harm:
        return Standing.FAILED, f"held down by {', '.join(harm)}"
    if facts.state.persistent is False:
        return Standing.FAILED, "persistence mode is off: the driver forgets clocks and settings between jobs"
    if facts.state.persistent is None:
        return Standing.UNSEEN, "persistence mode"
    return (
        Standing.VERIFIED,
        f"persistent, nothing harmful holds them down ({facts.state.sm_clock} of {facts.state.max_sm_clock} MHz)",
    )


def _one_gpu(facts: Facts) -> Answer:
    gpus, runners = facts.host.gpus, facts.host.processes.count(LISTENER)
    if not gpus:
        return Standing.UNSEEN, "no GPU"
    if gpus > 1:
        return Standing.FAILED, f"this job sees {gpus} GPUs"
    if runners > gpus:
        return Standing.FAILED, f"{runners} runners share one GPU"
    return Standing.VERIFIED, "this job sees one GPU"


def _alone(facts: Facts) -> Answer:
    if facts.state is None:
        return Standing.UNSEEN, "the GPU"
    others = other_users(facts.state.users, facts.allow)
    if others:
        return Standing.FAILED, f"also on this GPU: {', '.join(f'{user.name} ({user.pid})' for user in others)}"
    if unnamed_users(facts.state.users):
        return Standing.UNSEEN, "who else uses the GPU: its processes live outside of this container"
    return Standing.VERIFIED, "nobody else uses the GPU"


def _lock(facts: Facts) -> Answer:
    if not facts.lock_is_writable:
        return Standing.FAILED, f"{facts.lock} cannot be written"
    if facts.host.in_container and not facts.locks_shared:
        return Standing.UNSEEN, f"whether other containers share {facts.lock}"
    return Standing.VERIFIED, f"in {facts.lock}"


def _cleaning(facts: Facts) -> Answer:
    if facts.host.leftovers:
        return Standing.FAILED, f"left by an earlier job: {', '.join(facts.host.leftovers)}"
    if facts.host.ephemeral or facts.host.has_cleanup_hook:
        return (
            Standing.VERIFIED,
            "a hook cleans after each job" if facts.host.has_cleanup_hook else "the machine ends with the job",
        )
    if facts.host.ephemeral is None:
        return Standing.UNSEEN, "what happens after a job"
    return Standing.FAILED, "the runner stays, and no hook cleans after a job"


def _disk(facts: Facts) -> Answer:
    found = f"{facts.free / GIB:.1f} GiB free, {DISK_FLOOR / GIB:.0f} are needed"
    return (Standing.FAILED if facts.free < DISK_FLOOR else Standing.VERIFIED), found


ITEMS: dict[str, tuple[str, Callable[[Facts], Answer], str]] = {
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
        "Clocks that keep what they are told",
        _clocks,
        "sudo systemctl enable --now nvidia-persistenced; nvidia-smi -q -d PERFORMANCE",
    ),
    "one-gpu": ("One GPU, one runner", _one_gpu, "docker run --gpus device=GPU-…, one runner for each GPU"),
    "alone": ("Nobody else on the GPU", _alone, "stop the other processes, or name those that may stay: --allow-process NAME"),
    "lock": (
        "A lock that all share",
        _lock,
        "mount one folder of the host into every container and name it in FLASHCORE_CI_LOCK_DIR",
    ),
    "cleaning": (
        "Nothing is left behind",
        _cleaning,
        "ACTIONS_RUNNER_HOOK_JOB_COMPLETED=/opt/runner/clean.sh in the runner's .env",
    ),
    "disk": ("Room", _disk, "make room, or name a larger disk in FLASHCORE_CI_HOME"),
}
"""Each item: its title, its question, and what fixes it."""
