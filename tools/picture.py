"""Draw the terminal report of a run as docs/images/NAME.svg: ``python tools/picture.py REPORT_FOLDER NAME``."""

from __future__ import annotations

import re
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from flashcore_ci.cli import outputs
from flashcore_ci.report import terminal

COLUMNS = 110
FONT_FACES = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""Rich names fonts on another server; a picture in a README loads nothing."""


def draw(run: Path, title: str) -> str:
    """The report in ``run`` as an SVG picture of a terminal."""
    console = Console(record=True, width=COLUMNS, file=StringIO())
    console.print(Text.from_ansi(terminal.render(outputs.read(run), COLUMNS, color=True)))
    return FONT_FACES.sub("", console.export_svg(title=title, unique_id="report")).replace("Fira Code, monospace", "monospace")


def main() -> None:
    """Write the picture."""
    run, name = Path(sys.argv[1]), sys.argv[2]
    picture = Path(__file__).parents[1] / "docs/images" / f"{name}.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(draw(run, "make gate"), encoding="utf-8")
    print(picture)


if __name__ == "__main__":
    main()
