"""ncu's page of a report, which a machine without its library reads."""

from __future__ import annotations

import importlib
import itertools
import lzma
from dataclasses import replace
from pathlib import Path

import pytest

from flashcore_ci.adapters import ncu, ncu_page
from flashcore_ci.model.reading import Measured

RECORDINGS = Path(__file__).parents[2] / "recordings/ncu"
PAGE = (RECORDINGS / "two-workloads.csv").read_text(encoding="utf-8")
LISTED = ncu_page.parse(PAGE)
RANGE = '""<default domain>:red-race:none:none:none:none:none:none""'


def test_a_recorded_page_names_workloads_kernels_and_units():
    assert [(action.workload, action.kernel) for action in LISTED] == [("red-clean", "fault_clean"), ("red-race", "fault_race")]
    assert LISTED[0].metrics[ncu.DURATION] == (2080.0, "ns")
    assert LISTED[0].metrics["sm__cycles_elapsed.max"] == (4043.0, "cycle")


def test_a_recorded_page_shows_its_report(tmp_path):
    module = pytest.importorskip("ncu_report")
    report = tmp_path / "r.ncu-rep"
    report.write_bytes(lzma.decompress((RECORDINGS / "two-workloads.ncu-rep.xz").read_bytes()))
    actions = ncu.read_actions(importlib.import_module(module.__name__), report)
    assert ncu_page.shows(LISTED, actions)
    assert not ncu_page.shows(LISTED[:1], actions)
    assert not ncu_page.shows((LISTED[0], replace(LISTED[1], kernel="other")), actions)


def test_of_nested_ranges_the_innermost_one_counts():
    outer = '""<default domain>:outer:none:none:none:none:none:none""'
    nested = PAGE.replace(RANGE, f"{outer} {RANGE}")
    assert ncu_page.parse(nested) == LISTED
    assert ncu_page.parse(nested.replace("red-race/fault", "outer/fault"))[1].workload == "outer"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "==ERROR== Failed to load report file.\n",
        PAGE.splitlines()[0],
        PAGE[:-40],
        PAGE.replace('"1","896"', '"7","896"'),
        PAGE.replace("4,043.00", "4,04x.00"),
        PAGE.replace("4,043.00", "nan"),
        PAGE.replace("4,043.00", "-4,043.00"),
        PAGE.replace("4,043.00", '4,043.00","1'),
        PAGE.replace("Kernel Name", "Function"),
        PAGE.replace("thread Domain", "Domain"),
    ],
)  # fmt: skip
def test_a_damaged_page_holds_nothing(text):
    assert ncu_page.parse(text) == ()


def test_the_command_prints_every_source_of_a_metric():
    argv = ncu_page.argv(Path("/ncu"), Path("/r.ncu-rep"))
    options = dict(itertools.pairwise(argv))
    assert options["--import"] == "/r.ncu-rep"
    assert set(options["--metrics"].split(",")) == {name for metric in ncu.NCU_METRICS for name in metric.sources}


@pytest.mark.parametrize(
    ("reading", "recorded", "same"),
    [
        (Measured(value=91.58, unit="%"), Measured(value=91.5849, unit="%"), True),
        (Measured(value=91.58, unit="%"), Measured(value=91.586, unit="%"), False),
        (Measured(value=706346.0, unit="cycle"), Measured(value=706346.0, unit="cycle"), True),
        (Measured(value=706346.0, unit="cycle"), Measured(value=706345.0, unit="cycle"), False),
        (Measured(value=0.36176, unit="ms"), Measured(value=0.36176000000000003, unit="ms"), True),
        (Measured(value=0.36176, unit="ms"), Measured(value=0.36177, unit="ms"), False),
        (Measured(value=1.0, unit="%"), Measured(value=1.0, unit="ms"), False),
    ],
)
def test_only_the_omitted_digits_may_differ(reading, recorded, same):
    assert ncu_page.is_rounded(reading, recorded) is same
