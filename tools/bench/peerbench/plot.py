"""Line charts as SVG: a few panels side by side with a common vertical axis. Pure; no fonts, scripts or files of others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from flashcore_ci.report.plotting import document, linear, logarithmic

PANEL_WIDTH, PANEL_HEIGHT = 360, 240
LEFT, TOP, BOTTOM, GAP = 56, 56, 48, 24
NICE_STEPS = (1, 2, 2.5, 5, 10)
MOST_TICKS = 6
KIBI = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One curve: its name in the legend, its colour, and points (x, y)."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    strong: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart: powers of two across, from zero upwards."""

    title: str
    lines: Sequence[Line]


def draw(title: str, unit: str, panels: Sequence[Panel]) -> str:
    """The picture. Curves without a point are left out, of the legend too."""
    width = LEFT + len(panels) * (PANEL_WIDTH + GAP)
    height = TOP + PANEL_HEIGHT + BOTTOM
    points = [point for panel in panels for line in panel.lines for point in line.points]
    xs = sorted({x for x, _ in points}) or [1.0]
    ticks = _ticks(max((y for _, y in points), default=1.0))
    body = [
        f'<text x="{LEFT}" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
        *_legend({line.name: line for panel in panels for line in panel.lines if line.points}),
    ]
    for index, panel in enumerate(panels):
        body += _panel(panel, LEFT + index * (PANEL_WIDTH + GAP), xs, ticks, unit if index == 0 else "")
    return document(title, width, height, body)


def _ticks(most: float) -> list[float]:
    """From 0 to a round number at or above the largest value, few enough to read."""
    power = 10 ** math.floor(math.log10(most / MOST_TICKS))
    step = next(power * nice for nice in NICE_STEPS if power * nice * MOST_TICKS >= most)
    return [index * step for index in range(math.ceil(most / step - 1e-9) + 1)]


def _legend(lines: dict[str, Line]) -> list[str]:
    out, x = [], LEFT
    for name, line in lines.items():
        out.append(
            f'<line x1="{x}" y1="36" x2="{x + 20}" y2="36" stroke="{line.colour}" stroke-width="{3 if line.strong else 1.8}"/>'
        )
        out.append(f'<text x="{x + 25}" y="40">{escape(name)}</text>')
        x += 45 + 7 * len(name)
    return out


def _panel(panel: Panel, left: int, xs: Sequence[float], ticks: Sequence[float], unit: str) -> list[str]:
    bottom = TOP + PANEL_HEIGHT
    across = logarithmic(xs[0], xs[-1], left + 14, left + PANEL_WIDTH - 14)
    up = linear(0.0, ticks[-1], bottom, TOP)
    out = []
    for tick in ticks:
        out.append(f'<line x1="{left}" y1="{up(tick):.1f}" x2="{left + PANEL_WIDTH}" y2="{up(tick):.1f}" stroke="#dddddd"/>')
        if unit:
            out.append(f'<text x="{left - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for x in xs:
        name = f"{x / KIBI:g}k" if x >= KIBI else f"{x:g}"
        out.append(f'<text x="{across(x):.1f}" y="{bottom + 16}" text-anchor="middle">{name}</text>')
    out.append(
        f'<text x="{left + PANEL_WIDTH / 2:.0f}" y="{bottom + 34}" text-anchor="middle">tokens, {escape(panel.title)}</text>'
    )
    if unit:
        middle = TOP + PANEL_HEIGHT / 2
        out.append(
            f'<text x="14" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 14 {middle:.0f})">{escape(unit)}</text>'
        )
    for line in sorted(panel.lines, key=lambda one: one.strong):
        places = [(across(x), up(y)) for x, y in sorted(line.points)]
        if not places:
            continue
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        thick = 3 if line.strong else 1.8
        out.append(f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="{thick}"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{thick + 0.7:g}" fill="{line.colour}"/>' for x, y in places]
    return out


def bars(
    title: str, unit: str, values: Sequence[tuple[str, float]], strong: frozenset[str] = frozenset(), digits: int = 1
) -> str:
    """Horizontal bars from zero, one below the other, with the number behind each; those in ``strong`` stand out."""
    width, row, left = 760, 18, 260
    height = 52 + row * len(values)
    most = max((value for _, value in values), default=0.0) or 1.0
    body = [
        f'<text x="12" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="{left}" y="38" fill="#555555">{escape(unit)}</text>',
    ]
    for index, (name, value) in enumerate(values):
        y = 46 + row * index
        colour = "#c0392b" if name in strong else "#909497"
        length = (width - left - 70) * value / most
        body.append(f'<text x="{left - 6}" y="{y + 11}" text-anchor="end">{escape(name)}</text>')
        body.append(f'<rect x="{left}" y="{y}" width="{max(length, 1):.1f}" height="{row - 5}" fill="{colour}"/>')
        body.append(f'<text x="{left + max(length, 1) + 5:.1f}" y="{y + 11}">{value:.{digits}f}</text>')
    return document(title, width, height, body)
