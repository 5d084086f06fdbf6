"""Evidence of several machine classes."""

from __future__ import annotations

import pytest

from flashcore_ci.model.errors import UnmetError, UsageError
from flashcore_ci.run import machines


def test_each_evidence_is_of_one_class() -> None:
    devices = ["NVIDIA H200", "NVIDIA H100 NVL", "NVIDIA L40S"]
    assert machines.assign("H100-NVL,h200,l40s", devices) == ("h200", "h100-nvl", "l40s")


@pytest.mark.parametrize(
    ("names", "devices", "message"),
    [
        ("h100,h200", ["NVIDIA H200"], "0 evidences are of h100"),
        ("h200", ["NVIDIA H200", "NVIDIA H200"], "2 evidences are of h200"),
        ("h200", ["NVIDIA H100"], "evidence of NVIDIA H100 is of no machine in --machines"),
        ("h200,nvidia", ["NVIDIA H200"], "is of h200 and nvidia"),
        ("h200", [""], "evidence of no GPU"),
    ],
)
def test_what_is_missing_is_named(names: str, devices: list[str], message: str) -> None:
    with pytest.raises(UnmetError, match=message):
        machines.assign(names, devices)


@pytest.mark.parametrize("names", ["", "h200,", "h200,H200", "a b", "../x"])
def test_names_that_are_none_are_refused(names: str) -> None:
    with pytest.raises(UsageError, match="--machines names no machines"):
        machines.assign(names, ["NVIDIA H200"])
