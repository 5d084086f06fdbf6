"""The files that pages load: our style and script, and uPlot with its licence."""

from __future__ import annotations

from importlib import resources

NAMES = (
    *("dashboard.css", "dashboard.js", "theme.js", "icon.svg"),
    *("uPlot.iife.min.js", "uPlot.min.css", "uPlot.LICENSE.txt"),
)
ASSETS = {name: resources.files(__package__).joinpath(name).read_bytes() for name in NAMES}
