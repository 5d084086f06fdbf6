"""Render one panel per workload. A missing measurement is named."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.reading import Measured, Samples
from flashcore_ci.model.suite import Kind, Workload
from flashcore_ci.model.verdict import Report, Verdict
from flashcore_ci.report import formatting
from flashcore_ci.report.html import charts
from flashcore_ci.report.html.charts import DotRow, Roofline, RooflinePoint
from flashcore_ci.report.html.error_histogram import histogram
from flashcore_ci.report.html.markup import Child, Markup, join, prose, tag
from flashcore_ci.report.html.matrix import SIGNS, style_of
from flashcore_ci.report.paired_rounds import comparison_of

TIME, CYCLES, CLOCK = "time/gpu/cold", "cycles/gpu/cold", "clock/sm"
SAME_CODE = "comparison/same-code"
SPEED = frozenset({Kind.TIMING, Kind.PROFILE, Kind.COMPARISON})
DRAWN_INTENSITY, DRAWN_RATE = (1e-6, 1e9), (1e3, 1e20)
"""Bounds in FLOP/byte and FLOP/s. A subject's numbers beyond them are nonsense and would squeeze the chart."""
WHOLE = 100
UNITS = (("sol/sm", "SM"), ("sol/dram", "DRAM"), ("sol/tensor", "tensor cores"), ("sol/xu", "XU (exp2)"))


def chosen(report: Report, dossier: Dossier) -> tuple[Workload, ...]:
    """Return the workloads with a check on speed."""
    targets = {verdict.target for verdict in report.verdicts if verdict.evidence in SPEED}
    return tuple(workload for workload in dossier.workloads if workload.id in targets)


def roofline(dossier: Dossier) -> Roofline | None:
    """Return the roofline of all workloads, or None without a point."""
    found = (roofline_point(dossier, workload.id) for workload in dossier.workloads)
    points = [point for point in found if point is not None]
    ridge = dossier.ridge
    if ridge is None or not points or not (DRAWN_RATE[0] < min(ridge.flops, ridge.bandwidth) <= ridge.flops < DRAWN_RATE[1]):
        return None
    return Roofline(ridge.flops, ridge.bandwidth, points)


def roofline_point(dossier: Dossier, workload: str) -> RooflinePoint | None:
    """Return the point of declared FLOP and bytes and median time."""
    problem, times = dossier.problem(workload), _samples(dossier.observation(Kind.TIMING, workload), TIME)
    seconds = statistics.median(times.values) * 1e-3 if times is not None else 0.0
    if problem is None or times is None or not min(problem.flops, problem.bytes, seconds, *times.values) > 0:
        return None
    intensity, rate = problem.flops / problem.bytes, problem.flops / seconds
    is_drawn = DRAWN_INTENSITY[0] < intensity < DRAWN_INTENSITY[1] and DRAWN_RATE[0] < rate < DRAWN_RATE[1]
    return RooflinePoint(intensity=intensity, rate=rate) if is_drawn else None


def render(workload: Workload, anchor: str, report: Report, dossier: Dossier, roof: Roofline | None) -> Markup:
    """Return the panel of one workload."""
    verdicts = [verdict for verdict in report.verdicts if verdict.target == workload.id]
    parameters = ", ".join(f"{name} = {value}" for name, value in workload.params)
    pictures = (
        _distribution(workload, dossier),
        _clocks(workload, dossier),
        _roofline(workload, dossier, roof),
        _speed_of_light(workload, verdicts, dossier),
        histogram(dossier.observation(Kind.CORRECTNESS, workload.id)),
    )
    return tag(
        "section",
        tag("h3", workload.id, class_="mono", id=f"{anchor}-title"),
        tag("p", f"{parameters}, roof: {workload.roof}, subject: {workload.subject}", class_="soft small"),
        tag("p", *_chips(verdicts)),
        tag("div", *sorted(pictures, key=lambda picture: "<svg" not in picture), class_="charts"),
        *_notes(verdicts),
        class_="panel",
        id=anchor,
        aria_labelledby=f"{anchor}-title",
    )


def figure(title: str, picture: Markup, caption: str) -> Markup:
    """Return a chart with its title and caption."""
    return tag("figure", tag("h4", title), picture, tag("figcaption", caption))


def absent(title: str, why: str) -> Markup:
    """Return a figure that says what is missing."""
    return tag("figure", tag("h4", title), tag("figcaption", prose(f"No data: {why}.")))


def _chips(verdicts: list[Verdict]) -> Iterator[Child]:
    for verdict in verdicts:
        text = f"{SIGNS[verdict.outcome]} {verdict.gate}"
        shown = f"{formatting.label(verdict)}: {formatting.with_limit(verdict)}"
        yield join((tag("span", text, class_=f"badge {style_of(verdict)}", title=shown), " "))


def _notes(verdicts: list[Verdict]) -> Iterator[Markup]:
    notes = dict.fromkeys(note for verdict in verdicts for note in verdict.notes)
    if notes:
        items = (tag("li", prose(formatting.shorten(note, 400))) for note in notes)
        yield tag("details", tag("summary", "Notes"), tag("ul", *items), class_="small")


def _distribution(workload: Workload, dossier: Dossier) -> Markup:
    title = "Every process"
    both = comparison_of(dossier, workload.id)
    if both is not None:
        rows = (DotRow(label="base", values=both.base, is_base=True), DotRow(label="head", values=both.head))
        label = f"base and head in {len(both.base)} rounds: the head takes {both.change:+.2f} %"
        caption = f"{formatting.plural(len(both.base), 'round')}, one dot per process. Median change {both.change:+.2f} %."
        return figure(title, charts.strip(rows, both.unit, label), caption)
    seen = dossier.observation(Kind.TIMING, workload.id)
    cycles, times = _samples(seen, CYCLES), _samples(seen, TIME)
    if cycles is None or times is None:
        return absent(title, _why(seen, "this workload was not timed"))
    center, time = statistics.median(cycles.values), statistics.median(times.values)
    spread = 100.0 * (max(cycles.values) - min(cycles.values)) / center if center else 0.0
    count = len(cycles.values)
    caption = (
        f"{count} fresh {'process' if count == 1 else 'processes'}, median {formatting.number(center, cycles.unit)} "
        f"({formatting.number(time, times.unit)}), range {spread:.2f} %. No base: {_base(workload, dossier)}."
    )
    row = DotRow(label="head", values=cycles.values)
    return figure(title, charts.strip((row,), cycles.unit, f"cycles of every process: {caption}"), caption)


def _base(workload: Workload, dossier: Dossier) -> str:
    seen = dossier.observation(Kind.COMPARISON, workload.id)
    if seen is None:
        return "none was measured"
    return "it is the same code" if SAME_CODE in dict(seen.readings) else _why(seen, "base and head were not paired")


def _clocks(workload: Workload, dossier: Dossier) -> Markup:
    title = "SM clock (MHz) and throttling"
    seen = dossier.observation(Kind.TIMING, workload.id)
    clocks = _samples(seen, CLOCK)
    if seen is None or clocks is None:
        return absent(title, _why(seen, "this workload was not timed"))
    traces = [trace for trace in dossier.traces if trace.workload == workload.id]
    curves = [list(zip(trace.seconds, trace.mhz, strict=True)) for trace in traces]
    curves = curves or [[(float(at), mhz)] for at, mhz in enumerate(clocks.values)]
    below = "seconds" if traces else "process"
    caption = f"Settled at {', '.join(f'{mhz:.0f}' for mhz in clocks.values)} MHz. {_throttling(seen)}"
    what = "One line per process, from its first block of launches to its last." if traces else "One dot per process."
    return figure(title, charts.lines(curves, f"SM clock: {caption}", below=below), f"{what} {caption}")


def _throttling(seen: Observation) -> str:
    readings = {name: reading for name, reading in seen.readings if isinstance(reading, Measured)}
    parts = []
    if "blocks/dropped" in readings:
        dropped = readings["blocks/dropped"].value
        parts.append(f"{dropped:.0f} blocks dropped for heat or hardware" if dropped else "no block dropped")
    parts += [note for note in seen.notes if note.startswith("clocks were held")] or ["nothing else held the clocks"]
    if "power/gpu" in readings and "temperature/gpu" in readings:
        parts.append(f"{readings['power/gpu'].value:.0f} W, {readings['temperature/gpu'].value:.0f} °C")
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _roofline(workload: Workload, dossier: Dossier, roof: Roofline | None) -> Markup:
    title = "Roofline (FLOP/s)"
    point = roofline_point(dossier, workload.id)
    if roof is None or point is None:
        return absent(title, "a time, or the problem's FLOP and bytes, is unknown")
    intensity = f"{point.intensity:,.0f}" if point.intensity >= WHOLE else f"{point.intensity:.3g}"
    reached = f"{point.rate / 1e12:.3g} TFLOP/s at {intensity} FLOP/byte: {roof.share(point):.0f} % of the datasheet's roof."
    caption = f"{reached} Faint dots: the other workloads."
    return figure(title, roof.picture(point, f"roofline: {caption}"), caption)


def _speed_of_light(workload: Workload, verdicts: list[Verdict], dossier: Dossier) -> Markup:
    title = "Speed of light"
    seen = dossier.observation(Kind.PROFILE, workload.id)
    if seen is None or seen.missing is not None:
        return absent(title, _why(seen, "this workload was not profiled"))
    readings = dict(seen.readings)
    limits = {verdict.gate.replace("-", "/", 1): verdict.limit for verdict in verdicts if verdict.evidence is Kind.PROFILE}
    found = ((name, readings.get(metric), limits.get(metric)) for metric, name in UNITS)
    rows = [(name, reading.value, limit) for name, reading, limit in found if isinstance(reading, Measured)]
    if not rows:
        return absent(title, "the profile has none of its metrics")
    values = ", ".join(f"{name} {value:.1f} %" for name, value, _ in rows)
    caption = "Share of each unit's peak, by Nsight Compute."
    if any(limit is not None for _, _, limit in rows):
        caption += " Dashed: the limit."
    return figure(title, charts.bars(rows, f"speed of light: {values}"), caption)


def _samples(seen: Observation | None, metric: str) -> Samples | None:
    found = dict(seen.samples).get(metric) if seen is not None else None
    return found if found is not None and found.values else None


def _why(seen: Observation | None, otherwise: str) -> str:
    return f"{seen.missing.code}: {seen.missing.message}" if seen is not None and seen.missing is not None else otherwise
