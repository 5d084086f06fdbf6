"""The frame of every page, and what pages share: numbers, dates, links and sparklines."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from flashcore_ci.dashboard.assets import ASSETS
from flashcore_ci.model.dashboard import Line
from flashcore_ci.model.history import RunRow
from flashcore_ci.report import formatting
from flashcore_ci.report.html.markup import Child, Markup, join, scrolling, tag

INLINE = {"script": ASSETS["theme.js"].decode(), "style": ASSETS["dashboard.css"].decode() + ASSETS["uPlot.min.css"].decode()}
"""What is in every page, so that the first paint waits for one answer only."""
_DIGESTS = {name: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for name, text in INLINE.items()}
POLICY = (
    f"default-src 'none'; script-src 'self' 'sha256-{_DIGESTS['script']}'; style-src 'sha256-{_DIGESTS['style']}'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
PAGES = {
    "index.html": "Overview",
    "versions.html": "Versions",
    "compare.html": "Compare",
    "machines.html": "Machines",
    "cost.html": "Cost",
    "gate.html": "The gate",
}
SHORT = 12
NONE, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
MOST_TEXT = 120
UNITS = {"ms": "ms", "megacycles": "Mcycle"}
FEWEST_OF_TREND = 4
SPARK_WIDTH, SPARK_HEIGHT = 120.0, 24.0


def render(name: str, title: str, *content: Child, charts: bool = False, depth: int = 0, now: int = 0) -> bytes:
    """Return a page. Untrusted text stays text."""
    root = "../" * depth
    scripts = [*(["uPlot.iife.min.js"] if charts else []), "dashboard.js"]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{shown(title)} · flashcore-ci"),
        tag("link", rel="icon", href=_asset(root, "icon.svg")),
        *(tag(name, Markup(text)) for name, text in INLINE.items()),
        *(tag("script", src=_asset(root, script), defer="") for script in scripts),
    )
    links = (tag("a", text, href=root + file, aria_current="page" if file == name else None) for file, text in PAGES.items())
    bar = tag(
        "header",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("a", "flashcore-ci", href=f"{root}index.html", class_="brand"),
        tag("nav", *links, aria_label="Pages"),
        tag("button", "Theme", id="theme", type="button", hidden=""),
    )
    made = f"Made {moment(now)} by flashcore-ci from its history. This page loads nothing from elsewhere."
    body = tag("body", bar, tag("main", *content, id="content"), tag("footer", tag("p", made)), data_root=root)
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n".encode()


def section(anchor: str, title: str, *content: Child) -> Markup:
    """Return a section that its heading names."""
    return tag("section", tag("h2", title, id=f"{anchor}-title"), *content, id=anchor, aria_labelledby=f"{anchor}-title")


Cells = Sequence[Child]
"""A row of a table. The first cell is its heading."""


def grid(
    label: str, head: Sequence[str], rows: Iterable[Cells], *, numeric: Iterable[int] = (), style: str | None = None
) -> Markup:
    """Return a table in a region that the keyboard can scroll. ``numeric`` columns are right-aligned."""
    styles = dict.fromkeys(numeric, "num")
    headings = (tag("th", name, scope="col", class_=styles.get(index)) for index, name in enumerate(head))
    body = (
        tag("tr", tag("th", first, scope="row"), *(tag("td", cell, class_=styles.get(i)) for i, cell in enumerate(rest, start=1)))
        for first, *rest in rows
    )
    return scrolling(f"Table: {label}", tag("table", tag("thead", tag("tr", *headings)), tag("tbody", *body), class_=style))


def mono(text: str) -> Markup:
    """Return a name in letters of one width."""
    return tag("span", text, class_="mono")


def facts(*pairs: tuple[str, Child]) -> Markup:
    """Return names with values."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), class_="facts")


def shown(text: str, most: int = MOST_TEXT) -> str:
    """Return text from outside as one short printable line."""
    return formatting.shorten(formatting.printable(text), most)


def moment(seconds: int) -> str:
    """Write UTC seconds as day and minute."""
    return f"{_utc(seconds):%Y-%m-%d %H:%M} UTC"


def day(seconds: int) -> str:
    """Write UTC seconds as a day."""
    return f"{_utc(seconds):%Y-%m-%d}"


def ago(seconds: int) -> str:
    """Write a duration in its largest unit."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return formatting.plural(seconds // size, unit)
    return "a moment"


def percent(log_ratio: float | None, digits: int = 2) -> str:
    """Write a log ratio as a signed share of one hundred."""
    if log_ratio is None or not math.isfinite(log_ratio):
        return NONE
    return f"{100 * math.expm1(max(-30.0, min(30.0, log_ratio))):+,.{digits}f} %".replace("-", MINUS)


def value(line: Line, given: float | None) -> str:
    """Write a value of the line with its unit."""
    return NONE if given is None else f"{given:.4g} {UNITS[line.series.scale]}"


def rate(line: Line, ms: float | None) -> str:
    """Write what one call reaches: TFLOP/s, or GB/s if memory-bound. A dash where it is unknown."""
    if ms is None or not ms > 0:
        return NONE
    if line.series.scale == "ms" and line.bytes:
        return f"{line.bytes / ms / 1e6:,.0f} GB/s"
    return f"{line.flops / ms / 1e9:,.1f} TFLOP/s" if line.flops else NONE


def link_of(line: Line, root: str = "") -> Markup:
    """Link to the page of a workload."""
    return tag("a", shown(line.series.workload), href=f"{root}w/{line.key}.html", class_="mono")


def run_link(run: RunRow | None, root: str = "") -> Child:
    """Link to a run by its commit."""
    if run is None:
        return NONE
    name = shown(run.commit.sha[:SHORT]) or "no commit"
    return tag(
        "a", name, href=f"{root}compare.html#a={run.digest[:SHORT]}", class_="mono", title=shown(run.commit.subject) or None
    )


def badge(text: str, style: str = "") -> Markup:
    """Return a word in a frame, with a colour of its own."""
    return tag("span", text, class_=f"badge {style or text}")


def sparkline(values: Sequence[float | None], label: str) -> Markup:
    """Return a small line without axes. Screen readers get ``label``."""
    known = [(index, number) for index, number in enumerate(values) if number is not None and math.isfinite(number)]
    if len(known) < FEWEST_OF_TREND:
        return tag("span", NONE, class_="soft")
    low, high = min(number for _, number in known), max(number for _, number in known)
    spread = max(high - low, 1e-3)  # so that noise of a tenth of a per cent stays flat
    middle = (high + low) / 2
    step = (SPARK_WIDTH - 6) / max(len(values) - 1, 1)
    places = [(3 + step * index, SPARK_HEIGHT / 2 - (number - middle) / spread * (SPARK_HEIGHT - 6)) for index, number in known]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    end = tag("circle", cx=places[-1][0], cy=places[-1][1], r=2.5)
    box = f"0 0 {SPARK_WIDTH:.0f} {SPARK_HEIGHT:.0f}"
    return tag("svg", tag("polyline", points=path), end, viewBox=box, class_="spark", role="img", aria_label=label)


def folded(summary: str, *content: Child, is_open: bool = False) -> Markup:
    """Return content that opens on demand."""
    return tag("details", tag("summary", summary), *content, open="" if is_open else None)


def paragraphs(*texts: str, style: str | None = None) -> Markup:
    """Return paragraphs."""
    return join(tag("p", text, class_=style) for text in texts)


def _asset(root: str, name: str) -> str:
    """Name an asset with its digest, so that a browser takes the new one after an upgrade."""
    return f"{root}assets/{name}?{hashlib.sha256(ASSETS[name]).hexdigest()[:8]}"


def _utc(seconds: int) -> datetime:
    return datetime.fromtimestamp(max(0, min(seconds, 253_402_300_799)), UTC)
