"""Draw charts as inline SVG. The page's tables or captions repeat all their text."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flashcore_ci.report.html.markup import Child, Markup, number, tag
from flashcore_ci.report.plotting import Place, linear, logarithmic, padded, powers_of_ten, ticks

WIDTH = 340.0
LEFT, RIGHT, BOTTOM, AXIS_TITLE = 44.0, 20.0, 18.0, 14.0
NEAR = 0.9
AXIS_TITLES = {"Mcycle": "Mcycles", "ms": "milliseconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DotRow:
    """One side of a strip, one value per process."""

    label: str
    values: tuple[float, ...]
    is_base: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflinePoint:
    """A workload on the roofline: FLOP/byte and FLOP/s."""

    intensity: float
    rate: float


def svg(height: float, label: str, *children: Child) -> Markup:
    """Return a chart, whose ``label`` screen readers read."""
    return tag("svg", *children, viewBox=f"0 0 {number(WIDTH)} {number(height)}", role="img", aria_label=label)


def strip(rows: Sequence[DotRow], unit: str, label: str) -> Markup:
    """Draw each row's processes as dots, its median as a bar."""
    low, high = padded(value for row in rows for value in row.values)
    across = linear(low, high, LEFT, WIDTH - RIGHT)
    height = 34.0 * len(rows) + BOTTOM + AXIS_TITLE + 6
    children = list(_x_axis(ticks(low, high), across, height, AXIS_TITLES.get(unit, unit)))
    for index, row in enumerate(rows):
        middle = 20.0 + 34.0 * index
        children.append(_label(row.label, 0, middle + 4, "strong"))
        # Dots alternate above and below the line, so that equal values stay countable.
        for index_of_dot, value in enumerate(row.values):
            y = middle + (index_of_dot % 3 - 1) * 5
            children.append(tag("circle", cx=across(value), cy=y, r=4, class_="dot base" if row.is_base else "dot"))
        center = across(sorted(row.values)[len(row.values) // 2])
        children.append(tag("line", x1=center, x2=center, y1=middle - 12, y2=middle + 12, class_="median"))
    return svg(height, label, *children)


def lines(traces: Sequence[Sequence[tuple[float, float]]], label: str, *, below: str) -> Markup:
    """Draw a line per trace, or a dot for one point."""
    points = [point for trace in traces for point in trace]
    low, high = padded(y for _, y in points)
    height = 110.0 + AXIS_TITLE
    across = linear(0.0, max(x for x, _ in points), LEFT, WIDTH - RIGHT)
    up = linear(low, high, height - BOTTOM - AXIS_TITLE, 8.0)
    children = list(_y_axis(ticks(low, high, 4), up))
    children += _x_axis(ticks(0.0, max(x for x, _ in points), 4), across, height, below)
    for trace in traces:
        if len(trace) > 1:
            children.append(tag("polyline", points=_points(trace, across, up), class_="trace"))
        else:
            children += [tag("circle", cx=across(x), cy=up(y), r=3, class_="dot") for x, y in trace]
    return svg(height, label, *children)


def bars(values: Sequence[tuple[str, float, float | None]], label: str, *, most: float = 100.0) -> Markup:
    """Draw horizontal bars in per cent of ``most``: (name, value, limit)."""
    across = linear(0.0, most, 78.0, WIDTH - 52)
    children = []
    for index, (name, value, limit) in enumerate(values):
        y = 6.0 + 20.0 * index
        children.append(_label(name, 0, y + 10, "strong"))
        children.append(tag("rect", x=across(0), y=y, width=across(most) - across(0), height=12, rx=2, class_="track"))
        end = across(min(max(value, 0.0), most))
        children.append(tag("rect", x=across(0), y=y, width=end - across(0), height=12, rx=2, class_="bar"))
        children.append(_label(f"{value:.1f} %", WIDTH - 46, y + 10, "strong"))
        if limit is not None:
            at = across(min(limit, most))
            children.append(tag("line", x1=at, x2=at, y1=y - 3, y2=y + 15, class_="limit"))
    return svg(20.0 * len(values) + 8, label, *children)


def histogram(counts: Sequence[int], edges: Sequence[int], label: str, *, outlined: Sequence[int] | None = None) -> Markup:
    """Draw counts between ``edges`` (exponents of two), logarithmic, ``outlined`` on top."""
    height, foot = 110.0, 0.3
    across = linear(edges[0], edges[-1], LEFT, WIDTH - RIGHT)
    decades = math.log10(max(*counts, *(outlined or (1,)), 1))
    up = linear(0.0, decades + foot, height - BOTTOM, 8.0)
    children: list[Child] = []
    for power in range(0, int(decades) + 1, max(1, int(decades) // 3)):
        y = up(power + foot)
        children.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"))
        children.append(_label(f"1e{power}" if power else "1", LEFT - 6, y + 4, "end"))
    for side, style in ((counts, "bar"), (outlined or (), "bar outline")):
        tops = [up(math.log10(count) + foot) if count > 0 else height - BOTTOM for count in side]
        if tops:
            children.append(tag("path", d=_steps(tops, [across(edge) for edge in edges], height - BOTTOM), class_=style))
    step = max(1, round((edges[-1] - edges[0]) / 4))
    exponents = range(edges[0], edges[-1] + 1, step)
    children += [_label(f"2^{exponent}", across(exponent), height - 4, "middle") for exponent in exponents]
    return svg(height, label, *children)


class Roofline:
    """One roofline for all workloads (Williams et al., "Roofline", CACM 52:4, 2009)."""

    HEIGHT = 180.0

    def __init__(self, flops: float, bandwidth: float, dots: Sequence[RooflinePoint]) -> None:
        self.flops, self.bandwidth, self.dots = flops, bandwidth, tuple(dots)
        ridge = flops / bandwidth
        intensities = [ridge, *(dot.intensity for dot in dots)]
        self.low_x = 10 ** math.floor(math.log10(min(intensities) / 2))
        self.high_x = 10 ** math.ceil(math.log10(max(intensities) * 2))
        rates = [flops, *(dot.rate for dot in dots)]
        self.low_y = 10 ** math.floor(math.log10(min(*rates, self.low_x * bandwidth)))
        self.high_y = flops * 2.5
        self.across = logarithmic(self.low_x, self.high_x, LEFT, WIDTH - RIGHT)
        self.up = logarithmic(self.low_y, self.high_y, self.HEIGHT - BOTTOM - 12, 8.0)

    def definition(self) -> Markup:
        """Return the roof and all points, for every chart."""
        ridge = self.flops / self.bandwidth
        roof = [(self.low_x, self.low_x * self.bandwidth), (ridge, self.flops), (self.high_x, self.flops)]
        children: list[Child] = list(self._axes())
        children.append(tag("polyline", points=_points(roof, self.across, self.up), class_="roof"))
        children.append(_label(f"{self.flops / 1e12:.0f} TFLOP/s", WIDTH - RIGHT, self.up(self.flops) - 5, "end"))
        halfway = math.sqrt(self.low_x * ridge)
        slope = _label(f"{self.bandwidth / 1e12:g} TB/s", self.across(halfway) + 8, self.up(halfway * self.bandwidth) + 8)
        children.append(slope)
        children += [tag("circle", cx=self.across(d.intensity), cy=self.up(d.rate), r=3, class_="dot faint") for d in self.dots]
        symbol = tag("symbol", *children, id="roofline", viewBox=f"0 0 {number(WIDTH)} {number(self.HEIGHT)}")
        return tag("svg", symbol, class_="hidden", aria_hidden="true", width=0, height=0)

    def picture(self, dot: RooflinePoint, label: str) -> Markup:
        """Return the roofline with this workload's point."""
        mark = tag("circle", cx=self.across(dot.intensity), cy=self.up(dot.rate), r=6, class_="dot this")
        return svg(self.HEIGHT, label, tag("use", href="#roofline", width=WIDTH, height=self.HEIGHT), mark)

    def share(self, dot: RooflinePoint) -> float:
        """Return the reached per cent of the roof."""
        return 100.0 * dot.rate / min(self.flops, dot.intensity * self.bandwidth)

    def _axes(self) -> Iterable[Markup]:
        bottom = self.up(self.low_y)
        for intensity in powers_of_ten(self.low_x, self.high_x):
            x = self.across(intensity)
            yield tag("line", x1=x, x2=x, y1=8, y2=bottom, class_="grid")
            yield _label(f"{intensity:g}", x, bottom + 13, "middle")
        yield _label("FLOP / byte", (LEFT + WIDTH) / 2, self.HEIGHT - 4, "middle")
        for rate in powers_of_ten(self.low_y, self.high_y):
            y = self.up(rate)
            yield tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid")
            if y < bottom:  # the label of the x axis is in the corner
                yield _label(f"{rate / 1e12:g} T", LEFT - 6, y + 4, "end")


def fullness(used: float) -> str:
    """Return the classes of a bar."""
    return "used over" if used > 1 else "used near" if used > NEAR else "used"


def closeness(used: float) -> Markup:
    """Return a thin bar of the used share, in steps of 5 %."""
    return tag("i", class_=f"{fullness(used)} u{round(20 * min(max(used, 0.0), 1.0))}")


def _steps(tops: Sequence[float], edges: Sequence[float], floor: float) -> str:
    columns = "".join(f"V{number(top)}H{number(right)}" for top, right in zip(tops, edges[1:], strict=True))
    return f"M{number(edges[0])},{number(floor)}{columns}V{number(floor)}Z"


def _label(text: str, x: float, y: float, style: str = "") -> Markup:
    return tag("text", text, x=x, y=y, class_=f"t {style}".strip())


def _points(pairs: Iterable[tuple[float, float]], across: Place, up: Place) -> str:
    return " ".join(f"{number(across(x))},{number(up(y))}" for x, y in pairs)


def _x_axis(values: Iterable[float], across: Place, height: float, unit: str) -> Iterable[Markup]:
    shown = list(values)
    digits = _digits(shown)
    for value in shown:
        x = across(value)
        yield tag("line", x1=x, x2=x, y1=4, y2=height - BOTTOM - AXIS_TITLE, class_="grid")
        yield _label(f"{value:.{digits}f}", x, height - AXIS_TITLE - 4, "middle")
    yield _label(unit, (LEFT + WIDTH - RIGHT) / 2, height - 4, "middle")


def _y_axis(values: Iterable[float], up: Place) -> Iterable[Markup]:
    shown = list(values)
    digits = _digits(shown)
    for value in shown:
        y = up(value)
        yield tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid")
        yield _label(f"{value:.{digits}f}", LEFT - 6, y + 4, "end")


def _digits(values: Sequence[float]) -> int:
    gaps = [abs(b - a) for a, b in itertools.pairwise(values) if b != a]
    if gaps:
        return max(0, -math.floor(math.log10(min(gaps)) + 1e-9))
    return max(0, 2 - math.floor(math.log10(max(map(abs, values)) or 1)))
