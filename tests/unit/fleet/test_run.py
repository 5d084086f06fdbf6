"""Which GPUs of a machine measure together."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    monkeypatch.setattr(run.nvml, "models", lambda: dict(zip("012", models, strict=False)))
    assert run._of_one_model() == together
    request = Request(suite=Path("suite.toml"), out=Path("out"), environ={}, live=True)
    assert run.has_several_gpus(request) == (len(together) > 1)
