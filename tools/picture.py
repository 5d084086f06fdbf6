"""Draw the terminal report of a run as docs/images/SUITE.svg: ``make picture OUT=runs/latest``."""

from __future__ import annotations

import re
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from flashcore_ci.cli import outputs
from flashcore_ci.model.verdict import Report
from flashcore_ci.report import terminal

COLUMNS = 110
FONT_FACES = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""Rich names fonts on another server; a picture in a README loads nothing."""


def draw(report: Report) -> str:
    """The report as an SVG picture of a terminal."""
    console = Console(record=True, width=COLUMNS, file=StringIO())
    console.print(Text.from_ansi(terminal.render(report, COLUMNS, color=True)))
    title = f"flashcore-ci gate --suite gates/{report.suite}.toml"
    return FONT_FACES.sub("", console.export_svg(title=title, unique_id="report")).replace("Fira Code, monospace", "monospace")


def main() -> None:
    """Write the picture."""
    report = outputs.read(Path(sys.argv[1]))
    picture = Path(__file__).parents[1] / "docs/images" / f"{report.suite}.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(draw(report), encoding="utf-8")
    print(picture)


if __name__ == "__main__":
    main()
