"""Check the reports in the run folder: every judging command writes them, and `report` prints them or writes them again."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

PRINTED = {
    "json": "report.json",
    "junit": "junit.xml",
    "markdown": "summary.md",
    "comment": "comment.md",
    "sarif": "results.sarif",
    "html": "report.html",
}
"""What ``report --format`` prints, and the file that holds the same."""


def gate(cli, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return cli("gate", "--suite", "suite.toml", "--recorded", *arguments, **variables)


def test_report_shows_what_gate_wrote(cli, checkout: Path) -> None:
    written = gate(cli)
    before = {path.name: path.read_bytes() for path in (checkout / "runs/latest").iterdir() if path.is_file()}
    assert cli("report").stdout == written.stdout
    assert {path.name: path.read_bytes() for path in (checkout / "runs/latest").iterdir() if path.is_file()} == before
    for form, name in PRINTED.items():
        assert cli("report", "--format", form).stdout == before[name].decode("utf-8")


def test_report_html_writes_the_page_and_says_where(cli, checkout: Path) -> None:
    gate(cli)
    file = checkout / "runs/latest/report.html"
    before = file.read_bytes()
    file.unlink()
    for path in ("runs/latest", "runs/latest/report.json"):
        assert cli("report", path, "--html").stdout == "runs/latest/report.html\n"
        assert file.read_bytes() == before
    assert cli("report", "--html", "--format", "json").returncode == 2
    assert cli("report", "--format", "annotations").stdout.startswith("::error ")


@pytest.mark.parametrize("arguments", [["--only", "no-such-gate*"], []])
def test_github_gets_annotations_and_a_summary_on_every_exit(cli, checkout: Path, arguments: list[str]) -> None:
    summary = checkout / "summary"
    summary.write_text("# what an earlier command said\n")
    done = gate(cli, *arguments, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    said = summary.read_text(encoding="utf-8").split("\n", 1)
    assert said == ["# what an earlier command said", (checkout / "runs/latest/summary.md").read_text(encoding="utf-8")]
    assert re.search("^::error ", done.stderr, re.MULTILINE)
    assert "::" not in done.stdout
    assert "::error" not in gate(cli, *arguments).stderr
