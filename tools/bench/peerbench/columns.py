"""Columns and tables of docs/performance.md, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from peerbench.rows import CONTIGUOUS, FLASHCORE, NAMES
from peerbench.samples import Measured

ABSENT = "n/a"
GIBI = 2**30

Column = tuple[str, Callable[[Measured], str]]


def number(value: float | None, digits: int = 3) -> str:
    """Format a figure, or ABSENT for None."""
    return ABSENT if value is None else f"{value:.{digits}f}"


def bold(value: float | None) -> str:
    """Format a ratio, bold if FlashCore is at least as fast."""
    return f"**{value:.3f}**" if value is not None and value >= 1.0 else number(value)


def lines(titles: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a table."""
    first, *rest = [f"| {' | '.join(cells)} |" for cells in (titles, *rows)]
    return "\n".join([first, "| --- " * len(titles) + "|", *rest])


def table(columns: Sequence[Column], rows: Sequence[Measured]) -> str:
    """Write a table with one line per measured row."""
    return lines([title for title, _ in columns], ([cell(measured) for _, cell in columns] for measured in rows)) + "\n"


def ratio(peer: str, title: str) -> Column:
    """Compare with a peer in time."""
    return title, lambda measured: bold(measured.ratio(peer))


def figure(title: str, value: Callable[[Measured], float | None], digits: int = 3) -> Column:
    """Show one number."""
    return title, lambda measured: number(value(measured), digits)


def tflops(name: str) -> Column:
    """TFLOP/s of one contender."""
    return figure(NAMES[name], lambda measured: measured.tflops(name), 0)


def terabytes(name: str) -> Column:
    """TB/s of one contender."""
    return figure(NAMES[name], lambda measured: measured.terabytes(name), 2)


def _microseconds(name: str) -> Column:
    return figure(NAMES[name], lambda measured: measured.series[name].time * 1e3 if name in measured.series else None, 1)


def _clock(measured: Measured, name: str | None) -> str:
    return number(measured.series[name].clock if name in measured.series else None, 0)


D: Column = ("D", lambda measured: str(measured.row.d))
MASK: Column = ("mask", lambda measured: measured.row.mask)
SHAPE: Column = ("B·H·S", lambda measured: measured.row.shape)
CYCLES = figure("in cycles", lambda measured: measured.ratio("fa3", cycles=True))
SUITE_SHAPE: Column = ("B·Hq/Hkv·S·D", SHAPE[1])
PAGE: Column = ("page", lambda measured: str(measured.row.page))
SIZE: Column = ("GiB", lambda measured: f"{measured.row.bytes / GIBI:.2g}")
CUDNN, FA3 = ratio("cudnn", "x cuDNN"), ratio("fa3", "x FA3")

PREFILL = (
    *(SHAPE, MASK, ("dtype", lambda measured: measured.row.dtype), *map(tflops, NAMES)),
    ("best peer", lambda measured: NAMES.get(measured.best_peer() or "", ABSENT)),
    ("x best peer, in time", lambda measured: bold(measured.ratio(measured.best_peer()))),
    figure("in cycles", lambda measured: measured.ratio(measured.best_peer(), cycles=True)),
    ("clock: FlashCore, best peer (MHz)", lambda one: f"{_clock(one, FLASHCORE)}, {_clock(one, one.best_peer())}"),
)
CONTIGUOUS_RATIO = figure("of contiguous", lambda measured: measured.ratio(CONTIGUOUS))
SUITES: Mapping[str, Sequence[Column]] = {
    "contiguous": (SUITE_SHAPE, SIZE, *map(terabytes, NAMES), CUDNN, FA3),
    "paged": (SUITE_SHAPE, PAGE, terabytes(FLASHCORE), CONTIGUOUS_RATIO, terabytes("fa3"), FA3),
    "ragged": (SUITE_SHAPE, SIZE, terabytes(FLASHCORE), terabytes("fa3"), FA3),
    "latency": (SUITE_SHAPE, *map(_microseconds, NAMES), CUDNN, FA3),
    "varlen": (SUITE_SHAPE, MASK, tflops(FLASHCORE), tflops("fa3"), FA3, CYCLES),
}
