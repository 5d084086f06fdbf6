"""Compare every format of every shared report byte for byte. ``pytest tests/golden --update-golden`` regenerates them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from golden.dossiers import DOSSIERS
from golden.reports import REPORTS

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.verdict import Report
from flashcore_ci.report import annotations, comment, junit, markdown, sarif, terminal
from flashcore_ci.report.html import page
from flashcore_ci.store.codec import encode

FILES = Path(__file__).parent / "files"

FORMATS: dict[str, Callable[[Report, Dossier], bytes]] = {
    "100.txt": lambda report, _: terminal.render(report, width=100, color=False).encode(),
    "60.txt": lambda report, _: terminal.render(report, width=60, color=False).encode(),
    "color.txt": lambda report, _: terminal.render(report, width=100, color=True).encode(),
    "junit.xml": lambda report, _: junit.render(report).encode(),
    "summary.md": lambda report, _: markdown.render(report).encode(),
    "comment.md": lambda report, dossier: comment.render(report, dossier).encode(),
    "results.sarif": lambda report, dossier: sarif.render(report, dossier).encode(),
    "annotations.txt": lambda report, dossier: annotations.render(report, dossier).encode(),
    "report.html": lambda report, dossier: page.render(report, dossier).encode(),
    "report.json": lambda report, _: encode(report),
}


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("suffix", FORMATS)
def test_format(name: str, suffix: str, update_golden: bool) -> None:
    got = FORMATS[suffix](REPORTS[name], DOSSIERS[name])
    path = FILES / f"{name}.{suffix}"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(got)
    assert path.read_bytes().decode() == got.decode()


def test_no_file_is_left_over() -> None:
    assert {path.name for path in FILES.iterdir()} == {f"{name}.{suffix}" for name in REPORTS for suffix in FORMATS}
