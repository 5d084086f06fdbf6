"""Where ``calibrate`` writes the noise of a machine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from flashcore_ci.collect import calibration
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.noise import Noise
from flashcore_ci.run import calibrate
from flashcore_ci.store import record_files


def test_noise_of_other_clocks_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = SimpleNamespace(processes_of=lambda part: (part,))
    run = SimpleNamespace(out=None, suite=SimpleNamespace(suite=tmp_path / "suite.toml"))

    def write(policy: str) -> Path:
        made = Noise(device="NVIDIA H200", driver="1", clock_policy=policy, protocol=(), commit="", sittings=(), workloads=())
        monkeypatch.setattr(calibration, "noise", lambda *_, **__: made)
        return calibrate._write_noise(ledger, (None, None), run, commit="")

    assert write("not locked") == write("not locked")
    with pytest.raises(UsageError, match=r"nvidia-h200\.json is for another clock policy"):
        write("locked at 1500 MHz")
    run.out = tmp_path / "noise/locked.json"
    assert [record_files.read(Noise, file).clock_policy for file in (write("locked"), tmp_path / "noise/nvidia-h200.json")] == [
        "locked",
        "not locked",
    ]
