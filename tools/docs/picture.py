"""Draw the reports of a run for the README: ``make picture OUT=runs/latest``.

``docs/images/SUITE.svg`` shows the terminal. With Chromium, parts of the page and the pull-request comment become PNGs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from markdown_it import MarkdownIt
from rich.console import Console
from rich.text import Text

from flashcore_ci.model.verdict import Report
from flashcore_ci.report import terminal
from flashcore_ci.run import reports

IMAGES = Path(__file__).parents[2] / "docs/images"
COLUMNS = 110
FONT_FACES = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""Rich refers to fonts on another server. A picture in a README must load nothing."""
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars")
ONLY = "body > .skip, nav, body > header, footer, main > *:not({keep}), {keep} > h2, {drop} {{ display: none !important; }} main {{ padding: 12px !important; }}"
COMMENT_STYLE = """body { font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; margin: 24px auto; max-width: 900px; color: #1b1f24; }
table { border-collapse: collapse; font-size: 13px; } td, th { border: 1px solid #d5dae0; padding: 5px 10px; text-align: left; }
h2 { border-bottom: 1px solid #d5dae0; padding-bottom: 6px; } details { margin: 10px 0; }"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the page: CSS that selects it, and its size in pixels."""

    name: str
    height: int
    css: str = ""
    dark: bool = False
    width: int = 1280


COMMENT = Part(name="comment", height=760, width=980)
GREEN = (
    Part(name="page", height=900),
    Part(name="workload", height=570, css=ONLY.format(keep="#workloads", drop=".panel:not(#w6)"), dark=True),
)
RED = (COMMENT, Part(name="findings", height=620, css=ONLY.format(keep="#findings", drop="#none")))
"""The pictures of a run without findings, and of one with findings."""


def draw(report: Report) -> str:
    """Return an SVG of the report in a terminal."""
    console = Console(record=True, width=COLUMNS, file=StringIO())
    console.print(Text.from_ansi(terminal.render(report, COLUMNS, color=True)))
    title = f"flashcore-ci gate --suite gates/{report.suite}.toml"
    return FONT_FACES.sub("", console.export_svg(title=title, unique_id="report")).replace("Fira Code, monospace", "monospace")


def photograph(page: str, part: Part, suite: str, browser: str) -> Path:
    """Write the part of the page as a PNG and return its path."""
    text = POLICY.sub("", page).replace("</style>", f"{part.css}</style>")  # the policy would refuse the extra rules
    picture = IMAGES / f"{suite}-{part.name}.png"
    dark = ("--blink-settings=preferredColorScheme=0",) if part.dark else ()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(text, encoding="utf-8")
        size = f"--window-size={part.width},{part.height}"
        where = (f"--screenshot={picture}", f"--user-data-dir={folder}/profile")
        subprocess.run([browser, *FLAGS, *dark, size, *where, file.as_uri()], check=True, capture_output=True, timeout=120)
    return picture


def comment(text: str) -> str:
    """Return the comment as HTML: CommonMark with tables."""
    body = MarkdownIt("commonmark").enable("table").render(text)
    return f"<!DOCTYPE html><meta charset=utf-8><style>{COMMENT_STYLE}</style>{body}"


def main() -> None:
    """Write the pictures of the run in the folder given as the first argument."""
    out = Path(sys.argv[1])
    report = reports.read(out)
    IMAGES.mkdir(parents=True, exist_ok=True)
    vector = IMAGES / f"{report.suite}.svg"
    vector.write_text(draw(report), encoding="utf-8")
    print(vector)
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        print("no Chromium here: the pictures of the HTML report were not drawn again", file=sys.stderr)
        return
    page = (out / "report.html").read_text(encoding="utf-8")
    for part in RED if any(verdict.findings for verdict in report.verdicts) else GREEN:
        text = comment((out / "comment.md").read_text(encoding="utf-8")) if part is COMMENT else page
        print(photograph(text, part, report.suite, browser))


if __name__ == "__main__":
    main()
