"""Which GPUs of a machine measure together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sound_gpu import SOUND

from flashcore_ci.fleet import run
from flashcore_ci.run.request import Request


@pytest.mark.parametrize(
    ("models", "together"),
    [
        (("NVIDIA H200", "NVIDIA H200"), ["0", "1"]),
        (("NVIDIA H200", "NVIDIA T400", "NVIDIA H200"), ["0", "2"]),
        (("NVIDIA H200", "NVIDIA T400"), ["0"]),
    ],
)
def test_gpus_of_another_model_stay_out(models: tuple[str, ...], together: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.nvml, "uuids", lambda: tuple(map(str, range(len(models)))))
    monkeypatch.setattr(run.nvml, "read", lambda uuid: replace(SOUND, uuid=uuid, name=models[int(uuid)]))
    assert run._of_one_model() == together
    request = Request(suite=Path("suite.toml"), out=Path("out"), environ={}, live=True)
    assert run.has_several_gpus(request) == (len(together) > 1)
