"""The part of docs/performance.md about serving, and its picture, from the samples of one run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from peerbench import plot
from peerbench.rows import OURS
from peerbench.samples import Measured, Run
from peerbench.serving_rows import CALLS, CONTIGUOUS, ServingRow

PICTURE = "docs/performance/decode.svg"
ABSENT = "n/a"
NAMES = {OURS: "FlashCore", "fa3": "FlashAttention-3", "cudnn": "cuDNN", "fa2": "FlashAttention-2"}
GIBI = 2**30
MICRO = 1e3

INTRO = """\
## Decode and serving

{device}, driver {driver}, {date}. {versions}. [Samples](performance/serving.json.xz).

- The protocol is that of the tables above. Figures are medians of {fewest} to {most} rounds.
- Each sequence has one new query, in {dtype}. TB/s count the keys and values that must be read, once. The datasheet's memory does 4.8 TB/s.
- FlashCore and FlashAttention-3 are called through `flash_attn_with_kvcache`, with lengths on the device.
- cuDNN and FlashAttention-2 are called through PyTorch, which passes them neither lengths nor pages.
- [The roofline](roofline.md) has what Nsight Compute measures on the same kernels.
"""


def section(run: Run) -> str:
    """The Markdown of all suites that were measured."""
    suites: dict[str, list[Measured]] = {}
    for measured in run.rows:
        suites.setdefault(_row(measured).suite, []).append(measured)
    counts = [len(series.ms) for measured in run.rows for series in measured.series.values()] or [0]
    intro = INTRO.format(
        device=run.device,
        driver=run.driver,
        date=run.date,
        versions=", ".join(f"{name} {version}" for name, version in run.versions.items()),
        fewest=min(counts),
        most=max(counts),
        dtype=", ".join(sorted({_row(measured).dtype for measured in run.rows if _row(measured).suite != "varlen"})),
    )
    return "\n".join([intro, *(TABLES[suite](rows) for suite, rows in suites.items()), _missing(run.rows)])


def picture(run: Run) -> str:
    """TB/s of every contender on the contiguous rows, as bars; ours come first and say which row it is."""
    bars = [
        (f"{_row(measured).shape}   {NAMES[name]}" if name == OURS else NAMES[name], speed)
        for measured in run.rows
        if _row(measured).suite == "contiguous"
        for name in NAMES
        if (speed := measured.terabytes(name)) is not None
    ]
    ours = frozenset(label for label, _ in bars if label.endswith(NAMES[OURS]))
    return plot.bars("Decode: keys and values read", "TB/s; batch·query/key heads·length·head dimension", bars, ours, digits=2)


def in_short(run: Run) -> str:
    """For the README: the least and the most of each suite, in one paragraph."""
    of = {suite: [one for one in run.rows if _row(one).suite == suite] for suite in TABLES}
    speeds = [speed for one in of["contiguous"] if (speed := one.terabytes(OURS)) is not None]
    words = [
        f"Decode reads contiguous caches of 0.5 to 2 GiB at {_span(speeds, 2)} TB/s, where the datasheet says 4.8.\n",
        "| serving | x cuDNN | x FA3 |",
        "| --- | --- | --- |",
        f"| decode, contiguous caches | {_times(of['contiguous'], 'cudnn')} | {_times(of['contiguous'], 'fa3')} |",
        f"| decode, caches in pages | {ABSENT} | {_times(of['paged'], 'fa3')} |",
        f"| decode, ragged batch | {ABSENT} | {_times(of['ragged'], 'fa3')} |",
        f"| decode, batches of 1 and 4 | {_times(of['latency'], 'cudnn')} | {_times(of['latency'], 'fa3')} |",
        f"| prefill, sequences of different lengths | {ABSENT} | {_times(of['varlen'], 'fa3')} |",
        "\n[All rows of decode and serving](docs/performance.md#decode-and-serving).\n",
    ]
    return "\n".join(words)


def _times(rows: Sequence[Measured], peer: str) -> str:
    return _span([ratio for one in rows if (ratio := one.ratio(peer)) is not None], 2)


def _span(values: Sequence[float], digits: int) -> str:
    ends = [f"{end:.{digits}f}" for end in (min(values), max(values))] if values else [ABSENT]
    return " to ".join(dict.fromkeys(ends))


def line(measured: Measured) -> str:
    """One row for a terminal."""
    row = _row(measured)
    cells = [f"{name} {series.time * MICRO:9.1f} us {_rate(measured, name)}" for name, series in measured.series.items()]
    ratios = [f"x{name} {_number(measured.ratio(name))}" for name in measured.series if name != OURS]
    absent = [f"{name} missing: {why}" for name, why in measured.missing.items()]
    what = f"{row.suite}{f' page {row.page}' if row.page else ''}{' causal' if row.causal else ''}"
    return f"{what} {row.shape}: " + "; ".join(cells + ratios + absent)


def _rate(measured: Measured, name: str) -> str:
    if _row(measured).suite == "varlen":
        return f"{_speed(measured.tflops(name), 0)} TFLOP/s"
    return f"{_speed(measured.terabytes(name), 2)} TB/s"


def _row(measured: Measured) -> ServingRow:
    assert isinstance(measured.row, ServingRow)
    return measured.row


def _contiguous(rows: Sequence[Measured]) -> str:
    lines = _head(
        "### Contiguous caches\n\n![TB/s of each row](performance/decode.svg)\n",
        ["B·Hq/Hkv·S·D", "GiB", *NAMES.values(), "x cuDNN", "x FA3"],
    )
    for one in rows:
        speeds = [_speed(one.terabytes(name), 2) for name in NAMES]
        size = f"{_row(one).bytes / GIBI:.2g}"
        lines.append(_cells(_row(one).shape, size, *speeds, _bold(one.ratio("cudnn")), _bold(one.ratio("fa3"))))
    return "\n".join(lines) + "\n"


def _paged(rows: Sequence[Measured]) -> str:
    title = '### Caches in pages\n\nThe pages of a sequence are in random order. "Of contiguous" compares with FlashCore on the same numbers without pages.\n'
    lines = _head(title, ["B·Hq/Hkv·S·D", "page", "FlashCore", "of contiguous", "FlashAttention-3", "x FA3"])
    for one in rows:
        speeds = [_speed(one.terabytes(name), 2) for name in (OURS, "fa3")]
        lines.append(
            _cells(
                _row(one).shape,
                str(_row(one).page),
                speeds[0],
                _number(one.ratio(CONTIGUOUS)),
                speeds[1],
                _bold(one.ratio("fa3")),
            )
        )
    return "\n".join(lines) + "\n"


def _ragged(rows: Sequence[Measured]) -> str:
    lines = _head(
        "### Sequences of different lengths\n\nLog-uniform from 1/128 of the longest.\n",
        ["B·Hq/Hkv·S·D", "GiB", "FlashCore", "FlashAttention-3", "x FA3"],
    )
    for one in rows:
        speeds = [_speed(one.terabytes(name), 2) for name in (OURS, "fa3")]
        lines.append(_cells(_row(one).shape, f"{_row(one).bytes / GIBI:.2g}", *speeds, _bold(one.ratio("fa3"))))
    return "\n".join(lines) + "\n"


def _latency(rows: Sequence[Measured]) -> str:
    title = f"### Small batches\n\nMicroseconds of a call in a CUDA graph of {CALLS} calls, each on a cache of its own.\n"
    lines = _head(title, ["B·Hq/Hkv·S·D", *NAMES.values(), "x cuDNN", "x FA3"])
    for one in rows:
        times = [_speed(one.series[name].time * MICRO if name in one.series else None, 1) for name in NAMES]
        lines.append(_cells(_row(one).shape, *times, _bold(one.ratio("cudnn")), _bold(one.ratio("fa3"))))
    return "\n".join(lines) + "\n"


def _varlen(rows: Sequence[Measured]) -> str:
    title = "### Prefill of sequences of different lengths\n\n`flash_attn_varlen_func`, the same lengths, fp16, TFLOP/s.\n"
    lines = _head(title, ["B·Hq/Hkv·S·D", "mask", "FlashCore", "FlashAttention-3", "x FA3", "in cycles"])
    for one in rows:
        speeds = [_speed(one.tflops(name), 0) for name in (OURS, "fa3")]
        mask = "causal" if _row(one).causal else "full"
        lines.append(_cells(_row(one).shape, mask, *speeds, _bold(one.ratio("fa3")), _number(one.ratio("fa3", cycles=True))))
    return "\n".join(lines) + "\n"


TABLES = {"contiguous": _contiguous, "paged": _paged, "ragged": _ragged, "latency": _latency, "varlen": _varlen}


def _missing(rows: Sequence[Measured]) -> str:
    lines = [
        f"- {NAMES.get(name, name)}, {_row(one).suite} {_row(one).shape}: {why}"
        for one in rows
        for name, why in one.missing.items()
    ]
    return "\n".join(["Not measured here:\n", *lines]) + "\n" if lines else ""


def _head(title: str, columns: Sequence[str]) -> list[str]:
    return [title, _cells(*columns), "| --- " * len(columns) + "|"]


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _speed(value: float | None, digits: int) -> str:
    return ABSENT if value is None else f"{value:.{digits}f}"


def _number(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.3f}"


def _bold(value: float | None) -> str:
    return f"**{value:.3f}**" if value is not None and value >= 1.0 else _number(value)
