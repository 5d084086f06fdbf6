"""Write the tables of docs/evidence.md: the error rates of the gate no-slower on recorded samples.

Draws are seeded, and a test compares the page. Run it after a new recording.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from resampling import KINDS, TRIALS, Row, draws, interval, planted_draws, rows_of, sides, simulate
from rival_rules import RULES

from flashcore_ci.judge.stats.sequential_test import minimum_detectable_slowdown, percent, resolvable_margin
from flashcore_ci.model.codes import FAILING, PASSING, Code
from flashcore_ci.model.noise import Noise
from flashcore_ci.run import references
from flashcore_ci.store import record_files
from flashcore_ci.suite.loader import load

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/evidence.md"
SUITE = ROOT / "gates/hopper.toml"
BEGIN, END = "<!-- tables: tools/study/verdict_tables.py -->", "<!-- end of tables -->"
SUITES = 6000
DRAWS = 1000
PLANTED_DRAWS = 500
RIVAL_DRAWS = 60
LEVELS = (0.5, 1.0, 2.0)

Unchanged = tuple[dict[str, Counter[Code]], int]
"""Codes of each row over all A/A suites, and the number of suites with any failure."""
Detections = dict[tuple[str, float], int]
"""Comparisons that are SLOWER, by workload and slowdown in %."""


def recording() -> Noise:
    """Read the first recording in ``gates/noise``."""
    return record_files.read_all(Noise, ROOT / "gates/noise")[0][1]


def tables(noise: Noise) -> str:
    """Make all tables in Markdown."""
    rows = rows_of(noise, references.margins(load(SUITE, root=ROOT)))
    unchanged = resample_unchanged(rows)
    detections = {(row.workload, level): count_detections(row, level) for row in rows for level in LEVELS}
    measured = (rows, unchanged, detections)
    blocks = [source(noise, rows), workload_table(*measured), target_table(*measured), planted_table(rows)]
    return "\n\n".join([*blocks, rival_table(*measured), simulation_table()]) + "\n"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write one table in Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in (titles, *rows)]
    return "\n".join([lines[0], "| --- " * len(titles) + "|", *lines[1:]])


def source(noise: Noise, rows: tuple[Row, ...]) -> str:
    """Describe the recording."""
    processes = {len(row.same.process) for row in rows}
    return (
        f"Recorded on {noise.device}, driver {noise.driver}, clocks {noise.clock_policy}. There are at least {min(processes)} A/A "
        f"processes of each of {len(rows)} workloads, from {len(noise.sittings)} sessions, the last on "
        f"{noise.sittings[-1].collected_at[:10]}. A suite below is these {len(rows)} workloads. They share alpha with all "
        f"{rows[0].rows} comparisons of the default suite. "
        f"In cycles the recording counts for {rows[0].priors[0].df:.0f} degrees of freedom."
    )


def resample_unchanged(rows: tuple[Row, ...]) -> Unchanged:
    """Resample whole suites of unchanged code."""
    source, counts, red = random.Random("same code"), {row.workload: Counter() for row in rows}, 0
    count = min(len(row.same.process) for row in rows)
    for draw in draws(source, count, SUITES):
        codes = [row.verdict(row.same, row.same, draw) for row in rows]
        for row, code in zip(rows, codes, strict=True):
            counts[row.workload][code] += 1
        red += any(code in FAILING for code in codes)
    return counts, red


def count_detections(row: Row, level: float) -> int:
    """Count how many of ``DRAWS`` comparisons find a slowdown of ``level`` %, a factor on recorded samples."""
    source = random.Random(f"{row.workload} {level}")
    shift = math.log1p(level / 100.0)
    samples = draws(source, len(row.same.process), DRAWS)
    return sum(row.verdict(row.same, row.same, draw, shift) in FAILING for draw in samples)


def workload_table(rows: tuple[Row, ...], unchanged: Unchanged, detections: Detections) -> str:
    """One line per workload."""
    titles = ("workload", "ms", "scatter between processes", "margin", "resolvable margin")
    titles += ("minimum detectable slowdown (power 95 %)", "A/A undecided", "power at +0.5 %", "+1 %", "+2 %")
    lines = []
    for row in rows:
        prior, budget = row.priors[0], row.budget
        scatter = f"{100 * math.sqrt(prior.variance / 2):.3f} %{'' if row.compute_bound else ' (time)'}"
        least = (resolvable_margin(prior, budget), minimum_detectable_slowdown(prior, row.margin, budget))
        margins = (f"{percent(row.margin):.2g} %", *(f"{percent(one):.2f} %" for one in least))
        rates = (_rate(detections[row.workload, level], DRAWS) for level in LEVELS)
        undecided = _rate(_undecided(unchanged[0][row.workload]), SUITES)
        lines.append((f"`{row.workload}`", f"{row.median_ms:.3g}", scatter, *margins, undecided, *rates))
    return table(titles, lines)


def target_table(rows: tuple[Row, ...], unchanged: Unchanged, detections: Detections) -> str:
    """Requirements, measured rates, and how far a miss is."""
    counts, red = unchanged
    false, undecided = (sum(count(counts[row.workload]) for row in rows) for count in (_failing, _undecided))
    long = [row for row in rows if row.compute_bound and row.median_ms >= 0.05]  # noqa: PLR2004 - ms, as required
    narrow = [row for row in rows if "-d64" in row.workload and row.median_ms >= 0.1]  # noqa: PLR2004 - ms, as required
    rest = [row for row in rows if row not in long]
    lines = [
        _target("A/A: suites with any SLOWER", "≤ 0.1 %", red, SUITES, most=0.001),
        _target("A/A: rows SLOWER", "≤ 0.01 %", false, SUITES * len(rows), most=0.0001),
        _target("A/A: rows UNDECIDED", "≤ 2 %", undecided, SUITES * len(rows), most=0.02),
    ]
    for name, chosen, level, least in (
        ("Power at +1 %, compute-bound, ≥ 50 µs", long, 1.0, 0.99),
        ("Power at +0.5 %, D=64, ≥ 100 µs", narrow, 0.5, 0.95),
        ("Power at +2 %, memory-bound or < 50 µs", rest, 2.0, 0.95),
    ):
        worst = min(chosen, key=lambda row, level=level: detections[row.workload, level])
        what = f"{name}, worst of {len(chosen)} (`{worst.workload}`)"
        lines.append(_target(what, f"≥ {100 * least:.0f} %", detections[worst.workload, level], DRAWS, least=least))
    return table(("requirement", "limit", "measured (95 % interval over draws)", "result"), lines)


def planted_table(rows: tuple[Row, ...]) -> str:
    """Real extra work in the kernel, and how often it is SLOWER."""
    lines = []
    for row, slowdown in [(one, slowdown) for one in rows for slowdown in one.planted]:
        source = random.Random(f"{row.workload} planted {slowdown.percent}")
        samples = planted_draws(source, len(slowdown.base.process), PLANTED_DRAWS)
        codes = Counter(row.verdict(slowdown.base, slowdown.head, draw) for draw in samples)
        counts = (_failing(codes), _undecided(codes), sum(codes[code] for code in PASSING))
        planted = (f"+{slowdown.percent:g} %", f"{slowdown.confirmed:+.2f} %", str(len(slowdown.base.process)))
        lines.append((f"`{row.workload}`", *planted, *(_rate(count, PLANTED_DRAWS) for count in counts)))
    titles = ("workload", "planted slowdown", "confirmed in cycles", "recorded rounds", "SLOWER", "undecided", "SAME or FASTER")
    return table(titles, lines)


def rival_table(rows: tuple[Row, ...], unchanged: Unchanged, detections: Detections) -> str:
    """Other tools' rules on the same samples: 12 processes per side, all rows of the suite."""
    levels = (1.0, 2.0, 5.0)
    counts, red = unchanged
    false = sum(_failing(counts[row.workload]) for row in rows)
    totals = [sum(detections.get((row.workload, level)) or count_detections(row, level) for row in rows) for level in levels]
    ours = (_rate(false, SUITES * len(rows)), _rate(red, SUITES), *(_rate(hits, DRAWS * len(rows)) for hits in totals))
    lines = [("**flashcore-ci**", *ours)]
    count = min(len(row.same.process) for row in rows)
    for name, rule in RULES.items():
        source = random.Random(f"rival {name}")
        alarms = [[rule(*sides(row.same, row.same, draw)) for row in rows] for draw in draws(source, count, 4 * RIVAL_DRAWS)]
        cells = [name, _rate(sum(map(sum, alarms)), len(alarms) * len(rows)), _rate(sum(map(any, alarms)), len(alarms))]
        for level in levels:
            shift = math.log1p(level / 100.0)
            hits = sum(
                rule(*sides(row.same, row.same, draw, shift)) for draw in draws(source, count, RIVAL_DRAWS) for row in rows
            )
            cells.append(_rate(hits, RIVAL_DRAWS * len(rows)))
        lines.append(tuple(cells))
    titles = ("rule", "A/A: rows called slower", "A/A: suites with any", "+1 % called slower", "+2 %", "+5 %")
    return table(titles, lines)


def simulation_table() -> str:
    """Simulated machines: how often unchanged code is slower, and code that is 1 % slower."""
    lines = {}
    for results in map(simulate, KINDS):
        for rule, (false, undecided, seen) in results.items():
            unsure = f" ({_rate(undecided, TRIALS)} undecided)" if undecided else ""
            lines.setdefault(rule, [rule]).append(f"{_rate(false, TRIALS)}{unsure} / {_rate(seen, TRIALS)}")
    return table(("rule", *KINDS), lines.values())


def _failing(codes: Counter[Code]) -> int:
    return sum(codes[code] for code in FAILING)


def _undecided(codes: Counter[Code]) -> int:
    return codes.total() - sum(codes[code] for code in PASSING | FAILING)


def _rate(hits: int, trials: int) -> str:
    """Format a rate in per cent, with as many digits as the trials carry."""
    if hits in {0, trials}:
        return "0 %" if not hits else "100 %"
    return f"{100 * hits / trials:.{max(0, min(2, math.ceil(math.log10(trials)) - 2))}f} %"


def _target(what: str, limit: str, hits: int, trials: int, *, most: float = 1.0, least: float = 0.0) -> tuple[str, ...]:
    low, high = interval(hits, trials)
    rate = hits / trials
    missed = max(rate - most, least - rate, 0.0)
    verdict = "met" if not missed else f"missed by {100 * missed:.2g} percentage points"
    return what, limit, f"{_rate(hits, trials)} ({100 * low:.3g} to {100 * high:.3g} %) of {trials}", verdict


def page(text: str, noise: Noise) -> str:
    """The page with its tables exchanged. ValueError when it has no place for them."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{PAGE}: the markers {BEGIN} and {END} are missing")
    return f"{before}{BEGIN}\n\n{tables(noise)}\n{END}{after}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), recording()), encoding="utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
