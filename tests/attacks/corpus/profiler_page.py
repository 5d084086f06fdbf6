"""A machine without ncu's library believes numbers that ncu's own page does not show."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import tool_files as run
from attacking import Attack, AttackClass
from tool_files import REPORT, RUN, with_file, with_number, with_observation

from flashcore_ci.adapters import ncu
from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Outcome, StalePolicy
from flashcore_ci.run import profiler_reports, rederive

RECORDED = (Path(__file__).parents[2] / "recordings/ncu/two-workloads.csv").read_text(encoding="utf-8")
NAMES, UNITS, ROW, _ = RECORDED.splitlines()
CSV = REPORT.replace(".ncu-rep", ".csv")
SHARES = '"91.50","91.50","5,000.00","1,000.00","91.50","91.50","91.50"'
BIG = ROW.replace("red-clean", "big").replace("fault_clean", run.ENTRY)
BIG = BIG[: BIG.index('"0.03"')] + SHARES
PAGE = f"{NAMES}\n{UNITS}\n{BIG}\n"
GOOD = with_file(with_file(RUN, REPORT, b"a report"), CSV, PAGE)


def is_green(source: Source) -> bool:
    try:
        with mock.patch.object(ncu, "has_reader", return_value=False), profiler_reports.reading(source.files) as reports:
            checked = rederive.rederived(source, run.PLAN, reports)
    except EvidenceError:
        return False
    report = judge(run.PLAN, run.BUILDS, (checked,), waivers=(), as_of=run.NOON, stale=StalePolicy.BLOCK, tool="test")
    return report.outcome is Outcome.PASS


assert is_green(GOOD)


def attack(name: str, source: Source) -> Attack:
    return Attack(name=name, attempt=lambda _: is_green(source))


def page(text: str | None) -> Source:
    return with_file(GOOD, CSV, text)


def later(text: str) -> Source:
    """A second report and its page."""
    first, second = "report-0", "report-1"
    return with_file(with_file(GOOD, REPORT.replace(first, second), b"another"), CSV.replace(first, second), text)


ATTACKS = (
    attack("the page was removed", page(None)),
    attack("the page was emptied", page("")),
    attack("the report behind the page was removed", with_file(GOOD, REPORT, None)),
    attack("the page says why there is none", page("==ERROR== Failed to load report file.\n")),
    attack("the page ends after the units", page(f"{NAMES}\n{UNITS}\n")),
    attack("the page was cut within a number", page(PAGE[:-5])),
    attack("the page shows a lower share", page(PAGE.replace("91.50", "60.00"))),
    attack("the page shows a share that is lower by one in the last digit kept", page(PAGE.replace("91.50", "91.49"))),
    attack("the page is of another workload", page(PAGE.replace("big", "small"))),
    attack("the page is of another kernel", page(PAGE.replace(run.ENTRY, "cublas"))),
    attack("the page has other units", page(PAGE.replace('"%"', '"ns"'))),
    attack("the page lacks a metric", page(PAGE.replace("dram__throughput", "dram__bytes").replace("dram_throughput", "dram_bytes"))),
    attack("the page has a share of 1,000 %", page(PAGE.replace("91.50", "1,000.00"))),
    attack("the page has a negative share", page(PAGE.replace("91.50", "-91.50"))),
    attack("the page has no number", page(PAGE.replace("91.50", "nan"))),
    attack("the page has a number in words", page(PAGE.replace("91.50", "9.15e1"))),
    attack("the page has one launch more", page(f"{PAGE}{BIG.replace('0', '1', 1)}\n")),
    attack("the page has the launch twice", page(f"{PAGE}{BIG}\n")),
    attack("the page starts at the second launch", page(PAGE.replace('"0","896"', '"1","896"'))),
    attack("the kernel ran outside of the workload's range", page(PAGE.replace(f"big/{run.ENTRY}", run.ENTRY))),
    attack("a later page shows a lower share", later(PAGE.replace("91.50", "60.00"))),
    attack("the evidence shows more than the page", with_number(GOOD, Kind.PROFILE, "big", "sol/dram", 99.0)),
    attack("the evidence rounds up", with_number(GOOD, Kind.PROFILE, "big", "sol/dram", 91.51)),
    attack("the evidence names no report", with_observation(GOOD, Kind.PROFILE, "big", lambda old: replace(old, artifacts=()))),
)  # fmt: skip


def member(numbers: random.Random) -> Attack:
    """Change digits, bytes or rows of the page at random."""
    place = numbers.randrange(len(NAMES) + len(UNITS) + 2, len(PAGE) - 2)
    share = numbers.choice([numbers.uniform(0, 91.49), numbers.uniform(91.51, 109)])
    kinds: tuple[Callable[[], Source], ...] = (
        lambda: page(PAGE[:place]),
        lambda: page(PAGE.replace("91.50", f"{share:.2f}" if abs(share - 91.5) > 0.01 else "91.00")),
        lambda: with_number(GOOD, Kind.PROFILE, "big", "sol/dram", numbers.uniform(91.52, 110)),
        lambda: page(PAGE.replace(UNITS, UNITS.replace("%", numbers.choice(["", "ns", "cycle", "byte"])))),
        lambda: page(PAGE.replace("5,000.00", f"{numbers.randint(5_001, 9_999):,}.00")),
        lambda: later(PAGE.replace("91.50", f"{numbers.uniform(1, 90):.2f}")),
        lambda: page(PAGE.replace("big", numbers.choice(["small", "bigger", "", "b/ig"]))),
    )
    kind = numbers.randrange(len(kinds))
    return attack(f"kind {kind} at {place}", kinds[kind]())


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe evidence.json."""
    monkeypatch.setattr(rederive, "rederived", lambda source, *_: source)


CLASS = AttackClass(name="a profile that ncu's page denies", attacks=ATTACKS, member=member, mutant=mutant)
