"""Every format of every shared report, byte for byte. ``pytest tests/golden --update-golden`` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from golden.reports import REPORTS

from flashcore_ci.model.verdict import Report
from flashcore_ci.report import junit, markdown, terminal
from flashcore_ci.store.codec import encode

FILES = Path(__file__).parent / "files"

FORMATS: dict[str, Callable[[Report], bytes]] = {
    "100.txt": lambda report: terminal.render(report, width=100, color=False).encode(),
    "60.txt": lambda report: terminal.render(report, width=60, color=False).encode(),
    "color.txt": lambda report: terminal.render(report, width=100, color=True).encode(),
    "junit.xml": lambda report: junit.render(report).encode(),
    "summary.md": lambda report: markdown.render(report).encode(),
    "report.json": encode,
}


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("suffix", FORMATS)
def test_format(name: str, suffix: str, update_golden: bool) -> None:
    got = FORMATS[suffix](REPORTS[name])
    path = FILES / f"{name}.{suffix}"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(got)
    assert path.read_bytes().decode() == got.decode()


def test_no_file_is_left_over() -> None:
    assert {path.name for path in FILES.iterdir()} == {f"{name}.{suffix}" for name in REPORTS for suffix in FORMATS}
