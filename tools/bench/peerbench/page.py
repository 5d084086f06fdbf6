"""Write docs/performance.md, its pictures and a part of README.md from samples. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from peerbench import columns, plot
from peerbench.columns import ABSENT, Column, lines, number, table
from peerbench.rows import FLASHCORE, NAMES
from peerbench.samples import Measured, Run, geometric_mean

PAGE = "docs/performance.md"
PICTURES = PurePosixPath("docs/performance")
COLOURS = {FLASHCORE: plot.ACCENT, "fa3": "#2471a3", "cudnn": "#239b56", "fa2": plot.GREY}
README_LENGTHS = (512, 2048, 8192)
README_SUITES = {
    "contiguous": "decode, contiguous caches",
    "paged": "decode, caches in pages",
    "ragged": "decode, ragged batch",
    "latency": "decode, batches of 1 and 4",
    "varlen": "prefill, sequences of different lengths",
}


def blocks(run: Run, serving: Run) -> dict[str, str]:
    """Write the generated blocks of the page."""
    long = [measured for measured in run.rows if measured.row.b == 1]
    prefill = {f"d{d}": rows for (is_long, d), rows in _by_head(run).items() if not is_long}
    return {
        "lead": _lead(run),
        "device": f"{_device(run)}\nOf each row the first {run.protocol['settle_seconds']} s let the clock settle.",
        "summary": _summary(prefill.values()),
        **{name: table(columns.PREFILL, rows) for name, rows in prefill.items()},
        "long": table(_long_columns(run, long), long),
        "missing": _missing(run.rows),
        "serving-device": _device(serving),
        **{suite: table(columns.SUITES[suite], rows) for suite, rows in _by_suite(serving).items() if rows},
        "serving-missing": _missing(serving.rows),
    }


def pictures(run: Run, serving: Run) -> dict[str, str]:
    """Draw the pictures by path."""
    out = {f"{PICTURES}/decode.svg": decode_picture(serving)}
    for (long, d), rows in _by_head(run).items():
        title = f"One long sequence, 16 heads of {d}, fp16" if long else f"Attention forward, head dimension {d}, fp16"
        out[f"{PICTURES}/{'long-' if long else ''}d{d}.svg"] = picture(title, rows)
    return out


def readme(run: Run, serving: Run) -> str:
    """Write the block of README.md."""
    return f"{_prefill_summary(run)}\n{serving_summary(serving)}"


def line(measured: Measured) -> str:
    """Describe one row for a terminal."""
    row, peers = measured.row, [name for name in measured.series if name != FLASHCORE]
    rate, unit, digits = (measured.tflops, "TFLOP/s", 0) if row.suite in {"", "varlen"} else (measured.terabytes, "TB/s", 2)
    parts = [f"{name} {one.time:8.4f} ms {number(rate(name), digits)} {unit}" for name, one in measured.series.items()]
    parts += [f"x{peer} {number(measured.ratio(peer))} ({number(measured.ratio(peer, cycles=True))} in cycles)" for peer in peers]
    parts += [f"{name} missing: {why}" for name, why in measured.missing.items()]
    place = f"{row.suite}{f' page {row.page}' if row.page else ''}" if row.suite else f"D{row.d}"
    return f"{place} {row.shape} {row.mask} {row.dtype}: {', '.join(parts)}"


def _by_head(run: Run) -> dict[tuple[bool, int], list[Measured]]:
    """Group rows by (one long sequence, head dimension)."""
    keys = dict.fromkeys((measured.row.b == 1, measured.row.d) for measured in run.rows)
    return {key: [one for one in run.rows if (one.row.b == 1, one.row.d) == key] for key in keys}


def _by_suite(run: Run) -> dict[str, list[Measured]]:
    return {suite: [measured for measured in run.rows if measured.row.suite == suite] for suite in README_SUITES}


def _device(run: Run) -> str:
    counts = [len(series.ms) for measured in run.rows for series in measured.series.values()] or [0]
    device = f"{run.device}, {run.multiprocessors} multiprocessors, driver {run.driver}, {run.date}. {_versions(run)}."
    return f"{device}\nEach figure is a median of {min(counts)} to {max(counts)} rounds."


def _versions(run: Run) -> str:
    return ", ".join(f"{name} {version}" for name, version in run.versions.items())


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _span(values: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(number(end, 2) for end in (min(values), max(values)))) if values else ABSENT


def _lead(run: Run) -> str:
    """Count the rows that FlashCore leads, and list the others."""
    compared = [(measured.row, ratio) for measured in run.rows if (ratio := measured.ratio(measured.best_peer())) is not None]
    behind = [f"D={row.d} {row.shape} {row.mask} {row.dtype} ({ratio:.3f})" for row, ratio in compared if ratio < 1]
    count = f"{len(compared) - len(behind)} of {len(compared)}" if behind else f"all {len(compared)}"
    lead = f"FlashCore is at least as fast as FA3 and cuDNN on {count} prefill rows, long sequences included."
    return f"{lead} A peer is ahead on {', '.join(behind)}." if behind else lead


def _prefill_summary(run: Run) -> str:
    """For the README: three lengths, and every row on which a peer is ahead."""
    shown = [one for one in run.rows if one.row.b > 1 and one.row.dtype == "fp16" and one.row.s in README_LENGTHS]
    readme_columns = [columns.D, columns.SHAPE, columns.MASK, ("TFLOP/s", columns.tflops(FLASHCORE)[1])]
    for title, peer in (("FA2", "fa2"), ("cuDNN", "cudnn"), ("FA3", "fa3")):
        readme_columns.append(columns.figure(f"x {title}", lambda measured, peer=peer: measured.ratio(peer), 2))
    return f"""\
Attention forward in fp16 on one {run.device} ({run.date}). A ratio says how many times as long a peer takes: above 1, FlashCore is
faster. The kernels ran interleaved in one process, with a cold L2 and settled clocks. Figures are medians.
{_versions(run)}. FA2 and cuDNN are PyTorch's backends.

{table(readme_columns, shown)}
{_lead(run)}
[All rows, in time and in cycles, with plots](docs/performance.md).
"""


def serving_summary(run: Run) -> str:
    """For the README: the smallest and largest ratio of each suite."""
    suites = _by_suite(run)
    speeds = _known(measured.terabytes(FLASHCORE) for measured in suites["contiguous"])
    rows = [
        [title, *(_span(_known(one.ratio(peer) for one in suites[suite])) for peer in ("cudnn", "fa3"))]
        for suite, title in README_SUITES.items()
    ]
    return f"""\
Decode reads contiguous caches of 0.5 to 2 GiB at {_span(speeds)} TB/s, where the datasheet says 4.8.

{lines(("serving", "x cuDNN", "x FA3"), rows)}

[All rows of decode and serving](docs/performance.md#decode-and-serving).
"""


def _summary(groups: Iterable[Sequence[Measured]]) -> str:
    """Count the rows of each head dimension on which FlashCore leads."""
    titles = ("at least as fast as the best peer, in time", "in cycles", "geometric mean of the ratios, in time", "in cycles")
    summaries = []
    for rows in groups:
        time, cycles = (_known(row.ratio(row.best_peer(), cycles=cycles) for row in rows) for cycles in (False, True))
        ahead = (f"{sum(ratio >= 1.0 for ratio in ratios)} of {len(ratios)}" for ratios in (time, cycles))
        means = (number(geometric_mean(ratios)) for ratios in (time, cycles))
        ends = (number(pick(time, default=None)) for pick in (min, max))
        summaries.append((str(rows[0].row.d), str(len(rows)), *ahead, *means, *ends))
    return lines(("D", "rows", *titles, "smallest", "largest"), summaries)


def _long_columns(run: Run, rows: Sequence[Measured]) -> Sequence[Column]:
    """Compare the rate per clock with that of the shortest sequence."""
    shortest = {(one.row.d, one.row.causal): one for one in sorted(rows, key=lambda one: -one.row.s)}

    def rate(measured: Measured) -> float | None:
        return measured.flops_per_clock(FLASHCORE, run.multiprocessors)

    def share(measured: Measured) -> str:
        here, base = rate(measured), rate(shortest[measured.row.d, measured.row.causal])
        return ABSENT if here is None or base is None else f"{100 * here / base:.1f} %"

    return (
        *(columns.D, ("S", lambda measured: str(measured.row.s)), columns.MASK, *map(columns.tflops, NAMES)),
        *(columns.ratio("fa3", "x FA3 in time"), columns.CYCLES, columns.figure("FLOP per clock, FlashCore", rate, 0)),
        ("share of the shortest row", share),
    )


def _missing(measurements: Sequence[Measured]) -> str:
    """List the kernels that were not measured everywhere, with the reasons."""
    texts = []
    for name, why in dict.fromkeys(reason for measured in measurements for reason in measured.missing.items()):
        where = [measured for measured in measurements if measured.missing.get(name) == why]
        places = ", ".join(dict.fromkeys(measured.row.suite or f"D {measured.row.d}" for measured in where))
        texts.append(f"- {NAMES.get(name, name)}, on {len(where)} of {len(measurements)} rows ({places}): {why}")
    return "\n".join(texts or ["Nothing. Every contender of every row was measured."])


def picture(title: str, rows: Sequence[Measured]) -> str:
    """Draw TFLOP/s by length, full and causal."""
    panels: dict[str, list[plot.Line]] = {"full": [], "causal": []}
    for mask, curves in panels.items():
        shown = [measured for measured in rows if measured.row.mask == mask and measured.row.dtype == "fp16"]
        for name, label in NAMES.items():
            points = [(measured.row.s, speed) for measured in shown if (speed := measured.tflops(name)) is not None]
            curves.append(plot.Line(name=label, colour=COLOURS[name], points=points, strong=name == FLASHCORE))
    return plot.draw(title, "TFLOP/s", panels)


def decode_picture(run: Run) -> str:
    """Draw TB/s on the contiguous rows. FlashCore's bar names the row."""
    values = [
        (f"{measured.row.shape}   {label}" if name == FLASHCORE else label, speed)
        for measured in run.rows
        if measured.row.suite == "contiguous"
        for name, label in NAMES.items()
        if (speed := measured.terabytes(name)) is not None
    ]
    strong = frozenset(label for label, _ in values if label.endswith(NAMES[FLASHCORE]))
    unit = "TB/s; batch·query/key heads·length·head dimension"
    return plot.bars("Decode: keys and values read", unit, values, strong, digits=2)
