"""The state of a healthy GPU, as NVML reports it."""

from __future__ import annotations

from flashcore_ci.adapters.nvml import GpuState, User

SOUND = GpuState(
    name="NVIDIA H200",
    uuid="GPU-0",
    driver="580.159.04",
    cuda="13.0",
    compute_capability="9.0",
    memory=150 << 30,
    memory_used=1 << 30,
    compute_mode="default",
    ecc=True,
    ecc_errors=0,
    mig=False,
    sm_clock=1980,
    max_sm_clock=1980,
    power=120.0,
    power_limit=700.0,
    reasons=("power cap",),
    users=(User(pid=1, name="python", descendant=True),),
)
