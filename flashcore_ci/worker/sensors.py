"""Read clock, power, temperature and clock reasons from NVML, if present."""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x08, 0x20, 0x40, 0x80
THROTTLED = HW_SLOWDOWN | SW_THERMAL | HW_THERMAL | POWER_BRAKE
"""Reasons that spoil a sample. The power cap (0x04) is a Hopper's normal state under load. It is recorded and spoils nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorReading:
    """MHz, watts, degrees Celsius, and the mask of clock reasons."""

    mhz: int
    watts: float
    celsius: int
    reasons: int

    @property
    def throttled(self) -> bool:
        """Whether heat or hardware spoils this sample."""
        return bool(self.reasons & THROTTLED)


class Sensors:
    """The sensors of one GPU."""

    def __init__(self, uuid: str) -> None:
        self._nvml: Any = None
        with contextlib.suppress(Exception):
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self._nvml = pynvml

    def read(self) -> SensorReading | None:
        """Return the present values, or None without NVML."""
        if self._nvml is None:
            return None
        nvml, handle = self._nvml, self._handle
        return SensorReading(
            mhz=nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            watts=nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            celsius=nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            reasons=nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
        )


def summarize(readings: Sequence[SensorReading]) -> dict[str, Any]:
    """Return medians, the highest temperature, and how often each reason held."""
    if not readings:
        return {}
    reasons = Counter(bit for reading in readings for bit in range(64) if reading.reasons >> bit & 1)
    return {
        "watts": round(statistics.median(reading.watts for reading in readings), 1),
        "celsius": max(reading.celsius for reading in readings),
        "nvml_mhz": statistics.median(reading.mhz for reading in readings),
        "reasons": {f"{1 << bit:#x}": count for bit, count in sorted(reasons.items())},
    }
