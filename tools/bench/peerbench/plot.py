"""Draw line charts and bars as standalone SVG files. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from flashcore_ci.report.plotting import document, linear, logarithmic

PANEL_WIDTH, PANEL_HEIGHT = 360, 240
LEFT, TOP, BOTTOM, GAP = 56, 56, 48, 24
NICE_STEPS = (1, 2, 2.5, 5, 10)
MOST_TICKS = 6
KIBI = 1024
ACCENT, GREY = "#c0392b", "#909497"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One curve: its name in the legend, its colour, and points (x, y)."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    strong: bool = False

    @property
    def thickness(self) -> float:
        """Pixels."""
        return 3 if self.strong else 1.8


def draw(title: str, unit: str, panels: Mapping[str, Sequence[Line]]) -> str:
    """Draw one panel per title side by side, with powers of two across. Curves without a point are omitted."""
    width = LEFT + len(panels) * (PANEL_WIDTH + GAP)
    curves = [line for lines in panels.values() for line in lines if line.points]
    points = [point for line in curves for point in line.points]
    xs = sorted({x for x, _ in points}) or [1.0]
    ticks = round_ticks(max((y for _, y in points), default=1.0))
    body = [
        f'<text x="{LEFT}" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
        *_legend({line.name: line for line in curves}.values()),
    ]
    for index, panel in enumerate(panels.items()):
        body += _panel(panel, LEFT + index * (PANEL_WIDTH + GAP), xs, ticks, unit if index == 0 else "")
    return document(title, width, TOP + PANEL_HEIGHT + BOTTOM, body)


def round_ticks(most: float) -> list[float]:
    """Return at most MOST_TICKS equal steps from 0 to a round number at or above ``most``."""
    power = 10 ** math.floor(math.log10(most / MOST_TICKS))
    step = next(power * nice for nice in NICE_STEPS if power * nice * MOST_TICKS >= most)
    return [index * step for index in range(math.ceil(most / step - 1e-9) + 1)]


def _legend(lines: Iterable[Line]) -> list[str]:
    out, x = [], LEFT
    for line in lines:
        out.append(f'<line x1="{x}" y1="36" x2="{x + 20}" y2="36" stroke="{line.colour}" stroke-width="{line.thickness}"/>')
        out.append(f'<text x="{x + 25}" y="40">{escape(line.name)}</text>')
        x += 45 + 7 * len(line.name)
    return out


def _panel(panel: tuple[str, Sequence[Line]], left: int, xs: Sequence[float], ticks: Sequence[float], unit: str) -> list[str]:
    title, lines = panel
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
    out.append(f'<text x="{left + PANEL_WIDTH / 2:.0f}" y="{bottom + 34}" text-anchor="middle">tokens, {escape(title)}</text>')
    if unit:
        middle = TOP + PANEL_HEIGHT // 2
        out.append(f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{escape(unit)}</text>')
    for line in sorted(lines, key=lambda each: each.strong):
        places = [(across(x), up(y)) for x, y in sorted(line.points)]
        if not places:
            continue
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        out.append(f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="{line.thickness}"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{line.thickness + 0.7:g}" fill="{line.colour}"/>' for x, y in places]
    return out


def bars(
    title: str, unit: str, values: Sequence[tuple[str, float]], strong: frozenset[str] = frozenset(), digits: int = 1
) -> str:
    """Draw horizontal bars from zero with the number after each. Those in ``strong`` are coloured."""
    width, row, left = 760, 18, 260
    most = max((value for _, value in values), default=0.0) or 1.0
    body = [
        f'<text x="12" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="{left}" y="38" fill="#555555">{escape(unit)}</text>',
    ]
    for index, (name, value) in enumerate(values):
        y = 46 + row * index
        length = max((width - left - 70) * value / most, 1)
        colour = ACCENT if name in strong else GREY
        body.append(f'<text x="{left - 6}" y="{y + 11}" text-anchor="end">{escape(name)}</text>')
        body.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{row - 5}" fill="{colour}"/>')
        body.append(f'<text x="{left + length + 5:.1f}" y="{y + 11}">{value:.{digits}f}</text>')
    return document(title, width, 52 + row * len(values), body)
