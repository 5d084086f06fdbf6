"""What was measured, as it is kept, and the medians that follow. Pure, but for reading and writing one file."""

from __future__ import annotations

import json
import lzma
import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from peerbench.rows import BEST_OF, OURS, Row
from peerbench.serving_rows import ServingRow

SCHEMA = "peers-v1"


class SamplesError(ValueError):
    """The file holds no samples of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One contender on one row, a value for each round: milliseconds, and the SM clock during them in MHz."""

    ms: tuple[float, ...]
    mhz: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse rounds without a clock, and what is no measurement."""
        if not self.ms or len(self.ms) != len(self.mhz):
            raise SamplesError("every round has a time and a clock")
        if not all(math.isfinite(value) and value > 0 for value in self.ms + self.mhz):
            raise SamplesError("a time and a clock are finite and above 0")

    def divided(self, count: int) -> Series:
        """The same of one of so many equal parts of a round."""
        return Series(ms=tuple(round(ms / count, 7) for ms in self.ms), mhz=self.mhz)

    @property
    def time(self) -> float:
        """Median milliseconds."""
        return statistics.median(self.ms)

    @property
    def megacycles(self) -> float:
        """Median of each round's time multiplied by its own clock."""
        return statistics.median(ms * mhz / 1e3 for ms, mhz in zip(self.ms, self.mhz, strict=True))

    @property
    def clock(self) -> float:
        """Median MHz."""
        return statistics.median(self.mhz)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One row: who was measured, and why the others were not."""

    row: Row | ServingRow
    series: Mapping[str, Series]
    missing: Mapping[str, str] = field(default_factory=dict)

    def tflops(self, name: str) -> float | None:
        """TFLOP/s of a contender, None when it is missing."""
        series = self.series.get(name)
        return None if series is None else self.row.flops / series.time / 1e9

    def terabytes(self, name: str) -> float | None:
        """TB/s of keys and values that a contender reads in a serving row, None when it is missing."""
        series = self.series.get(name)
        return None if series is None or isinstance(self.row, Row) else self.row.bytes / series.time / 1e9

    def flops_per_clock(self, name: str, multiprocessors: int) -> float | None:
        """FLOP in each clock of each multiprocessor; the tensor cores do at most 4096."""
        series = self.series.get(name)
        return None if series is None else self.row.flops / (series.megacycles * 1e6 * multiprocessors)

    def best_peer(self) -> str | None:
        """The fastest of those that count as the best peer; None when none was measured."""
        return min((name for name in BEST_OF if name in self.series), key=lambda name: self.series[name].time, default=None)

    def ratio(self, peer: str | None, *, cycles: bool = False) -> float | None:
        """How many times as long the peer takes as ours: above 1, ours is faster. None when one of them is missing."""
        ours, other = self.series.get(OURS), self.series.get(peer or "")
        if ours is None or other is None:
            return None
        return other.megacycles / ours.megacycles if cycles else other.time / ours.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measurement: everything that the page needs."""

    device: str
    multiprocessors: int
    driver: str
    date: str
    versions: Mapping[str, str]
    protocol: Mapping[str, Any]
    rows: tuple[Measured, ...]


def geometric_mean(values: list[float]) -> float | None:
    """The geometric mean; None of nothing."""
    return math.exp(statistics.fmean(math.log(value) for value in values)) if values else None


def encode(run: Run) -> bytes:
    """One line a row, compressed: the same bytes for the same run."""
    head = {key: value for key, value in asdict(run).items() if key != "rows"}
    rows = [
        {**asdict(measured.row), "series": {k: asdict(v) for k, v in measured.series.items()}, "missing": dict(measured.missing)}
        for measured in run.rows
    ]
    lines = ",\n".join(json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows)
    text = f'{{"schema": "{SCHEMA}",\n"run": {json.dumps(head, ensure_ascii=False)},\n"rows": [\n{lines}\n]}}\n'
    return lzma.compress(text.encode())


def decode(content: bytes) -> Run:
    """The run of a file; SamplesError when it is not one."""
    try:
        document = json.loads(lzma.decompress(content))
        if document["schema"] != SCHEMA:
            raise SamplesError(f"schema {document['schema']}, not {SCHEMA}")
        return Run(**document["run"], rows=tuple(_row(record) for record in document["rows"]))
    except (lzma.LZMAError, ValueError, KeyError, TypeError) as error:
        raise SamplesError(f"no samples of tools/bench/peers.py: {error}") from error


def read(path: Path) -> Run:
    """The run of a file."""
    return decode(path.read_bytes())


def _row(record: dict[str, Any]) -> Measured:
    series = {name: Series(ms=tuple(values["ms"]), mhz=tuple(values["mhz"])) for name, values in record.pop("series").items()}
    missing = record.pop("missing")
    return Measured(row=ServingRow(**record) if "suite" in record else Row(**record), series=series, missing=missing)
