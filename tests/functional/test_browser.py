"""Open the HTML report in Chromium, if installed: the page is drawn and the console stays empty."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from golden.dossiers import DOSSIERS
from golden.reports import REPORTS

from flashcore_ci.report.html import page

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--virtual-time-budget=2000", "--enable-logging=stderr", "--v=0")  # fmt: skip

WIDTHS = (320, 768, 1280)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")


def complaints(file: Path, *flags: str) -> list[str]:
    """Return the browser's console messages about the page."""
    profile = f"--user-data-dir={file.parent / 'profile'}"
    argv = [str(BROWSER), *FLAGS, profile, *flags, file.as_uri()]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=600)
    return re.findall(r":CONSOLE[:(].*", done.stderr)


@pytest.mark.parametrize("name", REPORTS)
def test_the_console_stays_empty_and_the_page_is_drawn(tmp_path: Path, name: str) -> None:
    file = tmp_path / "report.html"
    file.write_text(page.render(REPORTS[name], DOSSIERS[name]), encoding="utf-8")
    assert complaints(file, f"--screenshot={tmp_path / 'picture.png'}", "--window-size=800,600") == []
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_a_script_is_refused_and_the_refusal_is_seen(tmp_path: Path) -> None:
    text = page.render(REPORTS["green"], DOSSIERS["green"])
    (tmp_path / "report.html").write_text(text.replace("</main>", "</main><script>document.title = 1</script>"), encoding="utf-8")
    assert any("Content Security Policy" in line for line in complaints(tmp_path / "report.html", "--dump-dom"))


@pytest.mark.parametrize("name", REPORTS)
def test_no_page_is_wider_than_its_window(tmp_path: Path, name: str) -> None:
    shown = html.escape(page.render(REPORTS[name], DOSSIERS[name]))
    measure = (
        "const root = event.target.contentDocument.documentElement; document.title += ` ${root.scrollWidth - root.clientWidth}`"
    )
    frames = [f'<iframe width="{width}" frameborder="0" srcdoc="{shown}" onload="{measure}"></iframe>' for width in WIDTHS]
    (tmp_path / "frames.html").write_text(f'<meta charset="utf-8">{"".join(frames)}', encoding="utf-8")
    argv = [str(BROWSER), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (tmp_path / "frames.html").as_uri()]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=600)
    assert re.findall(r"<title>(.*)</title>", done.stdout) == [" ".join("0" for _ in WIDTHS)]
