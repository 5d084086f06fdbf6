"""Stand in for nvidia-ml-py: the device of the recording, with clocks, power and temperature of an idle H200."""

# ruff: noqa: N802, N816, N818, N801 - the names are the real module's

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_recording = json.loads((Path(os.environ["RECORDING"]) / "recording.json").read_bytes())
_device = _recording["device"]

os.sched_getaffinity = lambda _: set(range(16))  # of the machine that was recorded

NVML_MEMORY_ERROR_TYPE_UNCORRECTED = NVML_VOLATILE_ECC = NVML_TEMPERATURE_GPU = 0
NVML_CLOCK_SM = 1


class NVMLError(Exception):
    """The error of the real module."""


class NVMLError_NotSupported(NVMLError):
    """The error for what a GPU does not support."""


class NVMLError_Timeout(NVMLError):
    """The error when nothing happened in time."""


def _answers(value: Any) -> Any:
    def answer(*_: Any) -> Any:
        return value

    return answer


def nvmlInit() -> None:
    if not _device:
        raise NVMLError("Driver Not Loaded")


nvmlShutdown = _answers(None)


_uuids = [f"{_device.get('uuid')}{'-' * bool(number)}{number or ''}" for number in range(int(os.environ.get("FAKE_GPUS", "1")))]


def _handle(gpu: int | str) -> str:
    """Return a GPU's UUID as its handle. A file ``lost`` loses all GPUs, and ``lost-UUID`` one of them."""
    uuid = _uuids[gpu] if isinstance(gpu, int) else gpu
    if any((Path(os.environ["RECORDING"]) / name).exists() for name in ("lost", f"lost-{uuid}")):
        raise NVMLError("GPU is lost")
    return uuid


def _uuid(handle: str) -> str:
    return handle


nvmlDeviceGetHandleByIndex = nvmlDeviceGetHandleByUUID = _handle
nvmlDeviceGetCount = _answers(len(_uuids))
nvmlEventTypeXidCriticalError = 8
nvmlEventSetCreate = list
nvmlEventSetFree = _answers(None)


def nvmlDeviceRegisterEvents(handle: str, _: int, events: list[str]) -> None:
    events.append(handle)


def nvmlEventSetWait_v2(events: list[str], milliseconds: int) -> Any:
    """Return the number in a file ``xid-UUID``, once. With ``!`` behind it, always."""
    time.sleep(milliseconds / 1000)
    for file in (Path(os.environ["RECORDING"]) / f"xid-{uuid}" for uuid in events):
        if file.exists():
            number = file.read_text()
            if not number.endswith("!"):
                file.unlink()
            return SimpleNamespace(eventData=int(number.rstrip("!")))
    raise NVMLError_Timeout


nvmlDeviceGetName = _answers(_device.get("name"))
nvmlDeviceGetUUID = _uuid
nvmlSystemGetDriverVersion = _answers(_device.get("driver"))
nvmlSystemGetCudaDriverVersion = _answers(13000)
nvmlDeviceGetCudaComputeCapability = _answers(tuple(map(int, os.environ.get("FAKE_CAPABILITY", "9.0").split("."))))
nvmlDeviceGetMemoryInfo = _answers(SimpleNamespace(total=_device.get("memory"), used=644939776))
nvmlDeviceGetComputeMode = _answers(0)
nvmlDeviceGetEccMode = _answers([1, 1])
nvmlDeviceGetTotalEccErrors = _answers(0)
nvmlDeviceGetMigMode = _answers([0, 0])
nvmlDeviceGetPersistenceMode = _answers(1)
nvmlDeviceGetUtilizationRates = _answers(SimpleNamespace(gpu=0, memory=0))
nvmlDeviceGetClockInfo = _answers(345)
nvmlDeviceGetMaxClockInfo = _answers(1980)
nvmlDeviceGetPowerUsage = _answers(82155)
nvmlDeviceGetEnforcedPowerLimit = _answers(700000)
nvmlDeviceGetTemperature = _answers(35)
nvmlDeviceGetCurrentClocksThrottleReasons = _answers(0x01)
nvmlDeviceGetComputeRunningProcesses = _answers([SimpleNamespace(pid=pid) for pid in _recording["users"]])


def _noted(what: str) -> Any:
    def note(*arguments: Any) -> None:
        with (Path(os.environ["RECORDING"]) / "clocks").open("a", encoding="ascii") as file:
            file.write(" ".join([what, *map(str, arguments[1:])]) + "\n")

    return note


nvmlDeviceSetGpuLockedClocks = _noted("lock")
nvmlDeviceResetGpuLockedClocks = _noted("reset")
