"""The GPU as NVML sees it: model, state and users."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from flashcore_ci.adapters import host, process
from flashcore_ci.model.errors import CannotCollectError

REASONS: dict[int, str] = {
    0x01: "idle", 0x02: "application clocks", 0x04: "power cap", 0x08: "hardware slowdown", 0x10: "sync boost",
    0x20: "software thermal slowdown", 0x40: "hardware thermal slowdown", 0x80: "power brake", 0x100: "display clocks",
}  # fmt: skip
HARDWARE_XIDS: dict[int, str] = {
    48: "double-bit ECC error", 62: "internal micro-controller halt", 64: "row remapping failed", 74: "NVLink error",
    79: "GPU has fallen off the bus", 94: "contained ECC error", 95: "uncontained ECC error", 119: "GSP RPC timeout", 120: "GSP error",
    140: "unrecovered ECC error",
}  # fmt: skip
"""Xid numbers of the hardware or its firmware (NVIDIA, "Xid Errors"). Those of an application's own faults, as 13 and 31, are absent."""
POLL_MS = 200
SAMPLE_SECONDS = 15.0
MAX_DIGITS = 9
VISIBLE = "CUDA_VISIBLE_DEVICES"
TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._()+-]{0,95}")
MPS = "nvidia-cuda-mps"
"""The name of its server, of which Linux keeps 15 characters."""
T = TypeVar("T")
COMPUTE_MODES = ("default", "exclusive thread", "prohibited", "exclusive process")


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A process on the GPU. ``name`` is empty in another container, ``descendant`` if this tool started it."""

    pid: int
    name: str
    descendant: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """A GPU now, in MHz, bytes and watts. None: it lacks that. ``ecc_errors``: uncorrected, since boot."""

    name: str
    uuid: str
    driver: str
    cuda: str
    compute_capability: str
    memory: int
    memory_used: int
    compute_mode: str
    ecc: bool | None
    ecc_errors: int | None
    mig: bool
    sm_clock: int
    max_sm_clock: int
    power: float
    power_limit: float
    reasons: tuple[str, ...]
    users: tuple[User, ...]
    persistent: bool | None = None


def read(gpu: str) -> GpuState:
    """Read the GPU with this index or UUID, "" for the first visible one. CannotCollectError without one."""
    with _session() as nvml:
        handle = _handle(nvml, gpu)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        ecc = _maybe(nvml, nvml.nvmlDeviceGetEccMode, handle)
        errors = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
        mig = _maybe(nvml, nvml.nvmlDeviceGetMigMode, handle)
        persistent = _maybe(nvml, nvml.nvmlDeviceGetPersistenceMode, handle)
        cuda = nvml.nvmlSystemGetCudaDriverVersion()
        return GpuState(
            name=_text(nvml.nvmlDeviceGetName(handle)),
            uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
            driver=_text(nvml.nvmlSystemGetDriverVersion()),
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
            compute_capability=".".join(str(part) for part in nvml.nvmlDeviceGetCudaComputeCapability(handle)),
            memory=memory.total,
            memory_used=memory.used,
            compute_mode=dict(enumerate(COMPUTE_MODES)).get(nvml.nvmlDeviceGetComputeMode(handle), "unknown"),
            ecc=None if ecc is None else bool(ecc[0]),
            ecc_errors=_maybe(nvml, nvml.nvmlDeviceGetTotalEccErrors, handle, *errors),
            mig=mig is not None and bool(mig[0]),
            sm_clock=nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            max_sm_clock=nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
            power=nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            power_limit=nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3,
            reasons=reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
            users=_users(nvml, handle),
            persistent=None if persistent is None else bool(persistent),
        )


def uuids() -> tuple[str, ...]:
    """List the GPUs of this machine that CUDA_VISIBLE_DEVICES leaves. CannotCollectError without a driver."""
    with _session() as nvml:
        return _visible(nvml)


def kept() -> AbstractContextManager[None]:
    """Keep NVML started meanwhile, by a thread. To start it again, for each question, takes no time then."""
    return _meanwhile(_keep, "", None)


def models() -> dict[str, str]:
    """Return the model of each visible GPU. To start NVML for each takes a tenth of a second."""
    with _session() as nvml:
        return {uuid: _text(nvml.nvmlDeviceGetName(_handle(nvml, uuid))) for uuid in _visible(nvml)}


def is_one_visible() -> bool:
    """Tell whether CUDA_VISIBLE_DEVICES names one GPU."""
    return bool(os.environ.get(VISIBLE)) and "," not in os.environ[VISIBLE] and not are_hidden()


def are_chosen() -> bool:
    """Tell whether CUDA_VISIBLE_DEVICES says which GPUs are visible."""
    return VISIBLE in os.environ


def are_hidden() -> bool:
    """Tell whether CUDA_VISIBLE_DEVICES hides every GPU."""
    return re.match(r"\s*(-|$)", os.environ.get(VISIBLE, "0")) is not None


def xids(gpu: str) -> AbstractContextManager[list[int]]:
    """Collect the numbers of the driver's critical errors on this GPU meanwhile."""
    return _meanwhile(_watch, gpu, [])


def neighbours(gpus: Sequence[str]) -> AbstractContextManager[dict[str, int]]:
    """Collect how busy each other GPU of this machine is at most meanwhile, in per cent, as far as the driver answers."""
    return _meanwhile(_sample, gpus, {})


@contextlib.contextmanager
def _meanwhile(watch: Callable[[Any, Any, threading.Event], None], gpus: str | Sequence[str], seen: T) -> Iterator[T]:
    done = threading.Event()
    watcher = threading.Thread(target=watch, args=(gpus, seen, done), daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join(timeout=10 * POLL_MS / 1000)


def _keep(_gpu: str, _seen: None, done: threading.Event) -> None:
    with contextlib.suppress(CannotCollectError), _session():
        done.wait()


def _watch(gpu: str, seen: list[int], done: threading.Event) -> None:
    """Wait for errors until ``done``. A driver that does not answer is found by ``read``."""
    with contextlib.suppress(CannotCollectError), _session() as nvml:
        events = nvml.nvmlEventSetCreate()
        try:
            nvml.nvmlDeviceRegisterEvents(_handle(nvml, gpu), nvml.nvmlEventTypeXidCriticalError, events)
            while not done.is_set():
                with contextlib.suppress(nvml.NVMLError_Timeout):
                    seen.append(int(nvml.nvmlEventSetWait_v2(events, POLL_MS).eventData))
        finally:
            nvml.nvmlEventSetFree(events)


def _sample(gpus: Sequence[str], most: dict[str, int], done: threading.Event) -> None:
    """Keep the highest load until ``done``. It reads only other GPUs, so it disturbs no timing."""
    with contextlib.suppress(CannotCollectError), _session() as nvml:
        is_last = False
        while True:
            for index in range(nvml.nvmlDeviceGetCount()):
                with contextlib.suppress(nvml.NVMLError):  # a divided GPU has no load
                    handle = nvml.nvmlDeviceGetHandleByIndex(index)
                    if (uuid := _text(nvml.nvmlDeviceGetUUID(handle))) not in gpus:
                        most[uuid] = max(int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu), most.get(uuid, 0))
            if is_last:
                return
            is_last = done.wait(SAMPLE_SECONDS)


@contextlib.contextmanager
def locked_clocks(gpu: str, mhz: int | None) -> Iterator[None]:
    """Lock the SM clock at ``mhz`` (None: as it is). CannotCollectError if the driver refuses."""
    if mhz is None:
        yield
        return
    with _session() as nvml:
        handle = _handle(nvml, gpu)
        try:
            nvml.nvmlDeviceSetGpuLockedClocks(handle, mhz, mhz)
            yield
        finally:
            nvml.nvmlDeviceResetGpuLockedClocks(handle)


def reasons(mask: int) -> tuple[str, ...]:
    """Say why the clocks are where they are."""
    return tuple(word for bit, word in REASONS.items() if mask & bit)


def divided_by(state: GpuState) -> str:
    """Return MIG or MPS if it divides the GPU, so that no time on it is that of a whole one."""
    return "MIG" if state.mig else "MPS" if any(user.name == MPS for user in state.users) else ""


def other_users(users: Sequence[User], allow: Sequence[str]) -> tuple[User, ...]:
    """List visible users that are neither descendants nor allowed (globs)."""
    named = [user for user in users if user.name and not user.descendant]
    return tuple(user for user in named if not any(fnmatch.fnmatch(user.name, pattern) for pattern in allow))


def are_numbered_elsewhere(users: Sequence[User], new: Sequence[User]) -> bool:
    """Tell whether the driver gives numbers of another pid namespace, as in a container, so that a name here is a stranger's.

    Ask while this tool has processes on the GPU: none of them is in the list then, and a ``new`` one does not exist here.
    """
    return not any(user.descendant for user in users) and any(not user.name for user in new)


def unnamed_users(users: Sequence[User]) -> tuple[User, ...]:
    """List users whose names this machine cannot see."""
    return tuple(user for user in users if not user.name and not user.descendant)


@contextlib.contextmanager
def _session() -> Iterator[Any]:
    try:
        import pynvml  # noqa: PLC0415 - needed only with a GPU
    except ImportError:
        fix = "pip install 'flashcore-ci[gpu]'"
        raise CannotCollectError("the Python package nvidia-ml-py is not installed", fix=fix) from None
    try:
        pynvml.nvmlInit()
        try:
            yield pynvml
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise CannotCollectError(f"the NVIDIA driver does not answer: {error}", fix="flashcore-ci doctor") from None


def _text(value: object) -> str:
    """Return a word of the driver. CannotCollectError for one that no driver writes."""
    word = str(value)
    if not TEXT.fullmatch(word):
        raise CannotCollectError(f"the NVIDIA driver gives an impossible text: {word[:80]!r}", fix="flashcore-ci doctor")
    return word


def _visible(nvml: Any) -> tuple[str, ...]:
    """Return the visible GPUs in their order. Numbers are those of nvidia-smi."""
    count = nvml.nvmlDeviceGetCount()
    here = [nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]
    chosen: list[str] = []
    for name in map(str.strip, os.environ.get(VISIBLE, ",".join(here)).split(",")):
        found = [uuid for index, uuid in enumerate(here) if name in {str(index), uuid}]
        found = found or [uuid for uuid in here if name and uuid.startswith(name)]
        if len(found) != 1 and not name.startswith("MIG-"):
            break
        chosen += found or [name]
    return tuple(chosen)


def _handle(nvml: Any, gpu: str) -> Any:
    if not gpu and VISIBLE in os.environ:
        if not (seen := _visible(nvml)):
            message = f"{VISIBLE} is {os.environ[VISIBLE]!r}, and no GPU of this machine has that name"
            raise CannotCollectError(message, fix="flashcore-ci doctor --gpu 0")
        gpu = seen[0]
    if not gpu.isdecimal():
        return nvml.nvmlDeviceGetHandleByUUID(gpu) if gpu else nvml.nvmlDeviceGetHandleByIndex(0)
    if len(gpu) > MAX_DIGITS or int(gpu) >= nvml.nvmlDeviceGetCount():  # the library would take 2**32 for 0
        raise CannotCollectError(f"this machine has no GPU {gpu[:20]}", fix="name one of those that `nvidia-smi -L` lists")
    return nvml.nvmlDeviceGetHandleByIndex(int(gpu))


def _maybe(nvml: Any, query: Any, *arguments: Any) -> Any:
    with contextlib.suppress(nvml.NVMLError_NotSupported):
        return query(*arguments)
    return None


def _users(nvml: Any, handle: Any) -> tuple[User, ...]:
    pids = {running.pid for running in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    names = {pid: host.read_text(Path(f"/proc/{pid}/comm")).strip() for pid in sorted(pids)}
    return tuple(User(pid=pid, name=name, descendant=process.is_descendant(pid)) for pid, name in names.items())
