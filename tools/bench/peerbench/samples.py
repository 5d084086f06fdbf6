"""The samples of a measurement, their file format, and their medians. Pure."""

from __future__ import annotations

import json
import lzma
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from peerbench.rows import BEST_OF, FLASHCORE, Row

SCHEMA = "peers-v1"
SUITE_FIELDS = {"suite", "hkv", "page"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One contender on one row. For each round: milliseconds, and the SM clock during them in MHz."""

    ms: tuple[float, ...]
    mhz: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse values that cannot be measurements."""
        if not self.ms or len(self.ms) != len(self.mhz):
            raise ValueError("a time and a clock are needed for every round")
        if not all(math.isfinite(value) and value > 0 for value in self.ms + self.mhz):
            raise ValueError("a time and a clock are finite and above 0")

    def divided(self, count: int) -> Series:
        """Return one of ``count`` equal parts of each round."""
        return Series(ms=tuple(round(ms / count, 7) for ms in self.ms), mhz=self.mhz)

    @property
    def time(self) -> float:
        """Median milliseconds."""
        return statistics.median(self.ms)

    @property
    def megacycles(self) -> float:
        """Median of each round's time multiplied by its clock."""
        return statistics.median(ms * mhz / 1e3 for ms, mhz in zip(self.ms, self.mhz, strict=True))

    @property
    def clock(self) -> float:
        """Median MHz."""
        return statistics.median(self.mhz)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measured contenders of one row, and why the others are missing. They have no figures."""

    row: Row
    series: Mapping[str, Series]
    missing: Mapping[str, str] = field(default_factory=dict)

    def tflops(self, name: str) -> float | None:
        """TFLOP/s of a contender."""
        return self.row.flops / self.series[name].time / 1e9 if name in self.series else None

    def terabytes(self, name: str) -> float | None:
        """TB/s of keys and values in a decode."""
        return self.row.bytes / self.series[name].time / 1e9 if name in self.series else None

    def flops_per_clock(self, name: str, multiprocessors: int) -> float | None:
        """FLOP per clock and multiprocessor, at most 4096."""
        return self.row.flops / (self.series[name].megacycles * 1e6 * multiprocessors) if name in self.series else None

    def best_peer(self) -> str | None:
        """Return the fastest of ``BEST_OF``, or None."""
        return min((name for name in BEST_OF if name in self.series), key=lambda name: self.series[name].time, default=None)

    def ratio(self, peer: str | None, *, cycles: bool = False) -> float | None:
        """Divide the peer's time by FlashCore's. Above 1, FlashCore is faster."""
        base, other = self.series.get(FLASHCORE), self.series.get(peer or "")
        if base is None or other is None:
            return None
        return other.megacycles / base.megacycles if cycles else other.time / base.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measurement."""

    device: str
    multiprocessors: int
    driver: str
    date: str
    versions: Mapping[str, str]
    protocol: Mapping[str, Any]
    rows: tuple[Measured, ...]


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean, or None of no values."""
    return math.exp(statistics.fmean(math.log(value) for value in values)) if values else None


def encode(run: Run) -> bytes:
    """Write one line per row, compressed. The same run gives the same bytes."""
    head = asdict(run)
    lines = []
    for record in head.pop("rows"):
        row = record.pop("row")
        row = {key: value for key, value in row.items() if row["suite"] or key not in SUITE_FIELDS}
        lines.append(json.dumps({**row, **record}, separators=(",", ":"), ensure_ascii=False))
    rows = ",\n".join(lines)
    text = f'{{"schema": "{SCHEMA}",\n"run": {json.dumps(head, ensure_ascii=False)},\n"rows": [\n{rows}\n]}}\n'
    return lzma.compress(text.encode())


def decode(content: bytes) -> Run:
    """Read the run from a file's content. ValueError if it is not one."""
    try:
        document = json.loads(lzma.decompress(content))
        schema, rows = document["schema"], tuple(_measured(record) for record in document["rows"])
        run = Run(**document["run"], rows=rows)
    except (lzma.LZMAError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"not samples of tools/bench/peers.py: {error}") from error
    if schema != SCHEMA:
        raise ValueError(f"not samples of tools/bench/peers.py: schema {schema}, not {SCHEMA}")
    return run


def _measured(record: dict[str, Any]) -> Measured:
    series = {name: Series(ms=tuple(values["ms"]), mhz=tuple(values["mhz"])) for name, values in record.pop("series").items()}
    return Measured(series=series, missing=record.pop("missing"), row=Row(**record))
