"""Columns and tables of docs/performance.md, in Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from peerbench.rows import CALLS, CONTIGUOUS, FLASHCORE, NAMES
from peerbench.samples import Measured

ABSENT = "n/a"
GIBI = 2**30

Column = tuple[str, Callable[[Measured], str]]


def number(value: float | None, digits: int = 3) -> str:
    """Format a figure, or ABSENT for None."""
    return ABSENT if value is None else f"{value:.{digits}f}"


def bold(ratio: float | None) -> str:
    """Format a ratio, in bold where FlashCore is at least as fast."""
    return f"**{ratio:.3f}**" if ratio is not None and ratio >= 1.0 else number(ratio)


def cells(texts: Iterable[str]) -> str:
    """Write one row of a table."""
    return f"| {' | '.join(texts)} |"


def table(columns: Sequence[Column], rows: Sequence[Measured]) -> str:
    """Write a table with one line per measured row."""
    lines = [cells(title for title, _ in columns), "| --- " * len(columns) + "|"]
    return "\n".join([*lines, *(cells(cell(measured) for _, cell in columns) for measured in rows)]) + "\n"


def time_ratio(peer: str, title: str) -> Column:
    """Compare with a peer in time."""
    return title, lambda measured: bold(measured.ratio(peer))


def cycle_ratio(peer: str) -> Column:
    """Compare with a peer in cycles."""
    return "in cycles", lambda measured: number(measured.ratio(peer, cycles=True))


def tflops(name: str) -> Column:
    """TFLOP/s of one contender."""
    return NAMES[name], lambda measured: number(measured.tflops(name), 0)


def terabytes(name: str) -> Column:
    """TB/s of one contender."""
    return NAMES[name], lambda measured: number(measured.terabytes(name), 2)


def microseconds(name: str) -> Column:
    """Microseconds of one contender."""
    return NAMES[name], lambda measured: number(measured.series[name].time * 1e3 if name in measured.series else None, 1)


def _clock(measured: Measured, name: str | None) -> str:
    return number(measured.series[name].clock if name in measured.series else None, 0)


D: Column = ("D", lambda measured: str(measured.row.d))
MASK: Column = ("mask", lambda measured: measured.row.mask)
SHAPE: Column = ("B·H·S", lambda measured: measured.row.shape)
SUITE_SHAPE: Column = ("B·Hq/Hkv·S·D", lambda measured: measured.row.shape)
SIZE: Column = ("GiB", lambda measured: f"{measured.row.bytes / GIBI:.2g}")
BOTH = (time_ratio("cudnn", "x cuDNN"), time_ratio("fa3", "x FA3"))

PREFILL_TABLE = (
    *(SHAPE, MASK, ("dtype", lambda measured: measured.row.dtype), *map(tflops, NAMES)),
    ("best peer", lambda measured: NAMES.get(measured.best_peer() or "", ABSENT)),
    ("x best peer, in time", lambda measured: bold(measured.ratio(measured.best_peer()))),
    ("in cycles", lambda measured: number(measured.ratio(measured.best_peer(), cycles=True))),
    (
        "clock: FlashCore, best peer (MHz)",
        lambda measured: f"{_clock(measured, FLASHCORE)}, {_clock(measured, measured.best_peer())}",
    ),
)
SUITES: Mapping[str, tuple[str, Sequence[Column]]] = {
    "contiguous": (
        "### Contiguous caches\n\n![TB/s of each row](performance/decode.svg)\n",
        (SUITE_SHAPE, SIZE, *map(terabytes, NAMES), *BOTH),
    ),
    "paged": (
        '### Caches in pages\n\nThe pages of a sequence are in random order. "Of contiguous" compares with FlashCore on the same numbers without pages.\n',
        (
            *(SUITE_SHAPE, ("page", lambda measured: str(measured.row.page)), terabytes(FLASHCORE)),
            ("of contiguous", lambda measured: number(measured.ratio(CONTIGUOUS))),
            *(terabytes("fa3"), BOTH[1]),
        ),
    ),
    "ragged": (
        "### Sequences of different lengths\n\nLog-uniform from 1/128 of the longest.\n",
        (SUITE_SHAPE, SIZE, terabytes(FLASHCORE), terabytes("fa3"), BOTH[1]),
    ),
    "latency": (
        f"### Small batches\n\nMicroseconds of a call in a CUDA graph of {CALLS} calls, each on a cache of its own.\n",
        (SUITE_SHAPE, *map(microseconds, NAMES), *BOTH),
    ),
    "varlen": (
        "### Prefill of sequences of different lengths\n\n`flash_attn_varlen_func`, the same lengths, fp16, TFLOP/s.\n",
        (SUITE_SHAPE, MASK, tflops(FLASHCORE), tflops("fa3"), BOTH[1], cycle_ratio("fa3")),
    ),
}
