"""Draw docs/roofline.md and its picture from the default suite's recorded profiles and its ridge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind, Ridge, Workload
from flashcore_ci.report.plotting import document, logarithmic, powers_of_ten
from flashcore_ci.store.run import Run, read_run
from flashcore_ci.suite.loader import load

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "gates/hopper.toml"
EVIDENCE = ROOT / "gates/evidence/nvidia-h200-hopper.tar.xz"
PAGE, PICTURE = "docs/roofline.md", "docs/performance/roofline.svg"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 500, 64, 24, 64, 52
SHOWN_WHOLE = 100
X, Y = (0.05, 20_000.0), (1e11, 2e15)  # FLOP/byte, FLOP/s
GROUPS = {  # in the order of the legend
    "stream": ("Streaming", "#7f8c8d"),
    "combine": ("Merge", "#16a085"),
    "decode": ("Decode, contiguous", "#2471a3"),
    "paged": ("Decode, pages", "#85c1e9"),
    "d64": ("Prefill D=64", "#c0392b"),
    "d128": ("Prefill D=128", "#e67e22"),
    "d256": ("Prefill D=256", "#8e44ad"),
    "e4m3": ("Prefill E4M3", "#27ae60"),
}
PEAKS = {"e4m3": 2.0}  # times the ridge's FLOP/s, which are those of fp16 and bf16
MEMORY_GROUPS = frozenset({"stream", "combine", "decode", "paged"})


class Point(NamedTuple):
    """One workload: least FLOP and bytes, profiled seconds, and ncu's shares of the peaks in per cent."""

    name: str
    group: str
    flops: float
    bytes: float
    seconds: float
    dram: float
    sm: float

    @property
    def intensity(self) -> float:
        """FLOP/byte."""
        return self.flops / self.bytes

    @property
    def speed(self) -> float:
        """FLOP/s."""
        return self.flops / self.seconds

    def share(self, ridge: Ridge) -> float:
        """Return the speed as a percentage of the roof above the point."""
        return 100.0 * self.speed / min(ridge.flops * PEAKS.get(self.group, 1.0), self.intensity * ridge.bandwidth)


def points(run: Run) -> list[Point]:
    """Return every workload with a complete profile, in the order of the plan."""
    problems = {problem.workload: problem for description in run.plan.descriptions for problem in description.problems}
    profiles = {profile.target: dict(profile.readings) for profile in run.evidence.observations if profile.kind is Kind.PROFILE}
    found = []
    for workload in run.plan.workloads:
        name, problem = workload.id, problems[workload.id]
        time, dram, sm = (profiles.get(name, {}).get(key) for key in ("time/gpu/profiled", "sol/dram", "sol/sm"))
        if isinstance(time, Measured) and isinstance(dram, Measured) and isinstance(sm, Measured):
            work = (problem.flops, problem.bytes, time.value / 1e3, dram.value, sm.value)
            found.append(Point(name, _group(workload), *work))
    return found


def _group(workload: Workload) -> str:
    params = dict(workload.params)
    if workload.subject == "decode":
        return "paged" if params.get("page") else "decode"
    return f"d{params['d']}" if "d" in params and workload.subject not in {"e4m3", "combine"} else workload.subject


def blocks(found: Sequence[Point], ridge: Ridge) -> dict[str, str]:
    """Write the generated blocks of the page."""
    memory = _span([p.share(ridge) for p in found if p.group in MEMORY_GROUPS])
    compute = _span([p.share(ridge) for p in found if p.group not in MEMORY_GROUPS])
    device = f"one {ridge.device} ({ridge.bandwidth / 1e12:.1f} TB/s and {ridge.flops / 1e12:.0f} TFLOP/s)"
    lines = ["| workload | FLOP/byte | TFLOP/s | TB/s | of the roof | DRAM busy | SM busy |", "| --- " * 7 + "|"]
    for p in found:
        speeds = f"{_short(p.speed / 1e12)} | {p.bytes / p.seconds / 1e12:.2f} | {p.share(ridge):.0f} %"
        lines.append(f"| `{p.name}` | {_short(p.intensity)} | {speeds} | {p.dram:.1f} % | {p.sm:.1f} % |")
    return {
        "reach": f"The stream and decode reach {memory} of the roof above them, and prefill reaches {compute}.",
        "device": f"The table has every workload that the default suite profiles, on {device}.",
        "table": "\n".join(lines),
    }


def _span(shares: Sequence[float]) -> str:
    return f"{min(shares):.0f} to {max(shares):.0f} %" if shares else "nothing"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= SHOWN_WHOLE else f"{value:.3g}"


across = logarithmic(*X, LEFT, WIDTH - RIGHT)
up = logarithmic(*Y, HEIGHT - BOTTOM, TOP)


def picture(found: Sequence[Point], ridge: Ridge) -> str:
    """Draw a dot per workload on logarithmic axes, with its name in a tooltip."""
    title = f"Below the roofs of one {ridge.device}"
    corner = ridge.flops / ridge.bandwidth
    roof = [(X[0], X[0] * ridge.bandwidth), (corner, ridge.flops), (X[1], ridge.flops)]
    fp8 = PEAKS["e4m3"] * ridge.flops
    above = [(corner, ridge.flops), (fp8 / ridge.bandwidth, fp8), (X[1], fp8)]
    body = [
        f'<text x="{LEFT}" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
        *_legend([group for group in GROUPS if any(point.group == group for point in found)]),
        *_grid(),
        f'<polyline points="{_places(roof)}" fill="none" stroke="#333333" stroke-width="2"/>',
        f'<polyline points="{_places(above)}" fill="none" stroke="#333333" stroke-width="1" stroke-dasharray="4 3"/>',
        f'<text x="{across(10):.1f}" y="{up(10 * ridge.bandwidth) - 8:.1f}" text-anchor="end">{ridge.bandwidth / 1e12:g} TB/s</text>',
        f'<text x="{across(2500):.1f}" y="{up(ridge.flops) - 8:.1f}">{ridge.flops / 1e12:g} TFLOP/s</text>',
        f'<text x="{across(2500):.1f}" y="{up(fp8) - 8:.1f}">E4M3: {fp8 / 1e12:g} TFLOP/s</text>',
    ]
    for point in found:
        dot = f'cx="{across(point.intensity):.1f}" cy="{up(point.speed):.1f}" r="5" fill="{GROUPS[point.group][1]}" fill-opacity="0.8"'
        body.append(f"<circle {dot}><title>{escape(point.name)}: {point.share(ridge):.0f} % of the roof</title></circle>")
    return document(title, WIDTH, HEIGHT, body)


def _places(line: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line)


def _legend(groups: Sequence[str]) -> list[str]:
    out, x = [], LEFT
    for group in groups:
        name, colour = GROUPS[group]
        out += [f'<circle cx="{x + 5}" cy="40" r="5" fill="{colour}"/>', f'<text x="{x + 15}" y="44">{escape(name)}</text>']
        x += 35 + 7 * len(name)
    return out


def _grid() -> list[str]:
    bottom, right, out = HEIGHT - BOTTOM, WIDTH - RIGHT, []
    for intensity in powers_of_ten(*X):
        x = across(intensity)
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#dddddd"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{intensity:g}</text>')
    for speed in powers_of_ten(*Y):
        y = up(speed)
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{speed / 1e12:g}</text>')
    middle = TOP + (bottom - TOP) / 2
    out.append(f'<text x="{(LEFT + right) / 2:.0f}" y="{bottom + 36}" text-anchor="middle">FLOP per byte</text>')
    out.append(f'<text x="14" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 14 {middle:.0f})">TFLOP/s</text>')
    return out


def committed() -> tuple[Ridge, list[Point]]:
    """Return the suite's roofs and the points of the committed evidence. ValueError if the suite has no ridge."""
    ridge = load(SUITE, root=ROOT).ridge
    if ridge is None:
        raise ValueError(f"{SUITE} has no [ridge]")
    return ridge, points(read_run(EVIDENCE))
