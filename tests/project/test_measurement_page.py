"""The tables of docs/evidence.md are what the recorded samples and the shipped rule give."""

from __future__ import annotations

import importlib
import math
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNDECIDED = 6
"""The column that only resampling whole suites gives."""


def tool(name: str) -> object:
    folder = str(ROOT / "tools/study")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)


@pytest.mark.nightly
def test_the_tables_are_up_to_date() -> None:
    tables = tool("verdict_tables")
    text = tables.PAGE.read_text(encoding="utf-8")
    assert tables.page(text, tables.recording()) == text


def test_some_of_the_tables_are_up_to_date() -> None:
    """The recording, all planted slowdowns, and the power on the workload where it is nearest to its limit."""
    tables = tool("verdict_tables")
    text = tables.PAGE.read_text(encoding="utf-8")
    noise = tables.recording()
    rows = tool("resampling").rows_of(noise, tables.references.margins(tables.load(tables.SUITE, root=ROOT)))
    assert tables.source(noise, rows) in text
    assert tables.planted_table(rows) in text
    row = next(row for row in rows if row.workload == "prefill-fp16-b64-h16-s512-d64")
    found = {(row.workload, level): tables.count_detections(row, level) for level in tables.LEVELS}
    (line,) = [line for line in text.splitlines() if line.startswith(f"| `{row.workload}` | {row.median_ms:.3g} |")]
    unchanged = ({row.workload: Counter()}, 0)
    shown = tables.workload_table((row,), unchanged, found).splitlines()[-1].split(" | ")
    assert [cell for number, cell in enumerate(line.split(" | ")) if number != UNDECIDED] == [
        cell for number, cell in enumerate(shown) if number != UNDECIDED
    ]


def test_a_page_without_a_place_for_them_is_refused() -> None:
    with pytest.raises(ValueError, match="are missing"):
        tool("verdict_tables").page("# Measured error rates", None)


class TestRivals:
    """Each rule on samples whose answer its documentation gives."""

    def sides(self, factor: float, count: int = 12, scatter: float = 0.001) -> tuple[object, object]:
        samples = tool("rival_rules").ProcessSamples
        values = [1.0 + scatter * (index % 5) for index in range(count)]
        slower = [factor * value for value in values]
        return samples(ms=values, megacycles=values), samples(ms=slower, megacycles=slower)

    @pytest.mark.parametrize(
        ("rule", "quiet", "loud"),
        [
            ("nvbench_legacy", 1.001, 1.003),
            ("nvbench_robust", 1.007, 1.009),
            ("asv", 1.09, 1.11),
            ("github_action_benchmark", 1.99, 2.01),
            ("ten_per_cent", 1.09, 1.11),
            ("mann_whitney", 1.0, 1.01),
        ],
    )
    def test_where_it_begins_to_call_slower(self, rule: str, quiet: float, loud: float) -> None:
        judge = getattr(tool("rival_rules"), rule)
        assert not judge(*self.sides(quiet))
        assert judge(*self.sides(loud))
        assert not judge(*self.sides(1.0 / loud))

    def test_nvbench_wants_its_gap_in_cycles_too(self) -> None:
        rules = tool("rival_rules")
        base, head = self.sides(1.05)
        assert not rules.nvbench_robust(base, rules.ProcessSamples(ms=head.ms, megacycles=base.megacycles))

    def test_mann_whitney_counts_every_ordering(self) -> None:
        rules = tool("rival_rules")
        assert sum(rules.orderings(5, 7)) == math.comb(12, 5)
        assert rules.mann_whitney_p([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)
        assert rules.mann_whitney_p([1, 2], [1, 2]) == 1.0


def test_the_interval_of_a_rate() -> None:
    interval = tool("resampling").interval
    assert interval(0, 100) == pytest.approx((0.0, 0.0362), abs=1e-4)
    assert interval(5, 100) == pytest.approx((0.0164, 0.1128), abs=1e-4)
    assert interval(100, 100) == pytest.approx((0.9638, 1.0), abs=1e-4)
