"""Photograph pages of a dashboard for the docs: ``python tools/docs/picture_dashboard.py ADDRESS PAGE=NAME…``.

``flashcore-ci dashboard serve`` gives the address. A NAME that ends in ``-dark`` or ``-phone`` sets the look.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/support"))
from chromium import Chromium  # noqa: E402 - the path is set above

SETTLED = "document.readyState === 'complete' && (!document.getElementById('chart') || !!document.querySelector('#chart canvas'))"


def main(address: str, *pictures: str) -> None:
    """Write docs/images/dashboard-NAME.png for each PAGE=NAME."""
    with tempfile.TemporaryDirectory() as folder:
        browser = Chromium(Path(folder) / "profile")
        try:
            for picture in pictures:
                page, _, name = picture.rpartition("=")
                width, height = (390, 760) if name.endswith("-phone") else (1180, 760)
                browser.look(width=width, height=height, dark=name.endswith("-dark"))
                browser.open(f"{address.rstrip('/')}/{page}")
                browser.wait(SETTLED)
                time.sleep(0.5)
                file = ROOT / f"docs/images/dashboard-{name}.png"
                file.write_bytes(browser.picture())
                print(file)
        finally:
            browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
