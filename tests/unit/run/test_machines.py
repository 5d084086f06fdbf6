"""Evidence of several machine classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashcore_ci.model.errors import EvidenceError, SuiteError, UnmetError, UsageError
from flashcore_ci.run import machines, reports
from flashcore_ci.run.request import Request


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


def test_no_class_keeps_an_earlier_green_report(tmp_path: Path) -> None:
    """The evidence cannot be read, so there is no verdict. A mistyped suite removes nothing."""
    suite, request = tmp_path / "suite.toml", Request(suite=tmp_path / "suite.toml", out=tmp_path / "out", environ={})
    files = [request.out / name / reports.REPORT for name in ("h100", "h200")]
    for file in files:
        file.parent.mkdir(parents=True)
        (file.parent / ".flashcore-ci").touch()
        file.write_text("green")
    with pytest.raises(SuiteError):
        machines.demand("h100,h200", [tmp_path / "none"], request)
    assert all(file.exists() for file in files)
    suite.touch()
    with pytest.raises(EvidenceError):
        machines.demand("h100,h200", [tmp_path / "none"], request)
    assert not any(file.exists() for file in files)
