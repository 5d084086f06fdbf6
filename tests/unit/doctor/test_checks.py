from __future__ import annotations

from dataclasses import replace

import pytest
from sound_gpu import SOUND

from flashcore_ci.adapters.nvml import GpuState, User
from flashcore_ci.doctor import checks
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Missing


def problems(state: GpuState, allow: tuple[str, ...] = ()) -> dict[str, checks.Diagnosis]:
    return {line.name: line for line in checks.diagnose_gpu(state, allow) if line.problem}


def test_a_sound_gpu_has_no_problem() -> None:
    assert problems(SOUND) == {}
    assert "this machine can gate" in checks.render(checks.diagnose_gpu(SOUND))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("arch", {"compute_capability": "7.5"}),
        ("driver", {"driver": "570.86.10"}),
        ("driver", {"driver": "unknown"}),
        ("mode", {"compute_mode": "prohibited"}),
        ("mode", {"mig": True}),
        ("ecc", {"ecc_errors": 2}),
        ("throttle", {"reasons": ("hardware thermal slowdown",)}),
        ("processes", {"users": (User(pid=7, name="train", descendant=False),)}),
    ],
)
def test_each_problem_has_its_fix(name: str, changes: dict[str, object]) -> None:
    found = problems(replace(SOUND, **changes))
    assert list(found) == [name]
    assert found[name].fix
    assert "1 to fix" in checks.render(tuple(found.values()))


def test_an_allowed_process_is_none_of_our_business() -> None:
    assert problems(replace(SOUND, users=(User(pid=7, name="dcgm-exporter", descendant=False),)), ("dcgm*",)) == {}


def test_a_process_that_cannot_be_named_is_not_called_a_problem_nor_nothing() -> None:
    lines = {line.name: line for line in checks.diagnose_gpu(replace(SOUND, users=(User(pid=7, name="", descendant=False),)))}
    assert "unknown" in lines["processes"].fact


def test_a_gpu_without_ecc() -> None:
    assert problems(replace(SOUND, ecc=None, ecc_errors=None)) == {}


@pytest.mark.parametrize("code", [Code.COUNTERS_DENIED, Code.COUNTERS_IN_USE])
def test_counters(code: Code) -> None:
    line = checks.diagnose_counters(Missing(code=code, message="said ncu"))
    assert line.problem
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in line.fix) or ("dcgmi profpause" in line.fix)
    assert not checks.diagnose_counters(None).problem


def test_disk() -> None:
    assert checks.diagnose_disk("runs", 1 << 20).fix
    assert not checks.diagnose_disk("runs", 1 << 40).problem


@pytest.mark.parametrize(
    ("name", "capability", "arch", "roofs"),
    [
        ("NVIDIA H200", "9.0", "(sm_90a): 227 KiB", "ridge at 206 FLOP/byte"),
        ("NVIDIA A100-SXM4-80GB", "8.0", "(sm_80): 163 KiB", "ridge at 153 FLOP/byte"),
        ("NVIDIA GeForce RTX 4090", "8.9", "(sm_89): 99 KiB", "ridge at 164 FLOP/byte"),
        ("NVIDIA B200", "10.0", "(sm_100): 227 KiB", "ridge at 281 FLOP/byte"),
        ("a new product", "12.0", "(sm_120): 99 KiB", "unknown for this product"),
    ],
)
def test_limits_and_roofs_follow_the_device(name: str, capability: str, arch: str, roofs: str) -> None:
    lines = {line.name: line for line in checks.diagnose_gpu(replace(SOUND, name=name, compute_capability=capability))}
    assert arch in lines["arch"].fact
    assert roofs in lines["roofs"].fact
    assert not lines["arch"].problem


def test_the_driver_floor_follows_the_toolchain() -> None:
    old = replace(SOUND, driver="570.86.10")
    assert not {line.name: line for line in checks.diagnose_gpu(old, cuda="12.8.93")}["driver"].problem
    found = {line.name: line for line in checks.diagnose_gpu(old, cuda="13.5.37")}["driver"]
    assert (found.problem, found.fix) == (True, "install driver 580 or newer: CUDA 13.5.37 needs it")
