"""What counts as a failure of the GPU itself."""

from __future__ import annotations

import pytest

from flashcore_ci.fleet import local
from flashcore_ci.model.errors import CannotCollectError


@pytest.mark.parametrize(("xids", "lost"), [((), ""), ((13, 31, 43, 45), ""), ((31, 79), "Xid 79: GPU has fallen off the bus")])
def test_only_the_hardwares_own_errors_count(xids: tuple[int, ...], lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local.nvml, "read", lambda _: None)
    assert local.hardware_failure("GPU-1", xids) == lost


def test_a_driver_that_does_not_answer_is_a_lost_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise CannotCollectError("the NVIDIA driver does not answer: GPU is lost")

    monkeypatch.setattr(local.nvml, "read", refuse)
    assert local.hardware_failure("GPU-1", ()) == "the NVIDIA driver does not answer: GPU is lost"
