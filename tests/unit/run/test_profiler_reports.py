"""Which file is read for a profile: the report by ncu's library, or ncu's page of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashcore_ci.adapters import ncu, ncu_page
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.reading import Missing
from flashcore_ci.run import profiler_reports

PAGE = (Path(__file__).parents[2] / "recordings/ncu/two-workloads.csv").read_bytes()
LISTED = ncu_page.parse(PAGE.decode())
FOLDER = "artifacts/profile"
REPORT, CSV = f"{FOLDER}/report-0.ncu-rep", f"{FOLDER}/report-0.csv"
INVALID = Missing(code=Code.INVALID_REPORT, message="m")


def last(files, workload="red-race"):
    with profiler_reports.reading(files) as reports:
        return reports.last_with(workload)


@pytest.fixture
def library(monkeypatch):
    """Whether ncu's library is installed, and what it reads."""

    def install(actions=None):
        monkeypatch.setattr(ncu, "has_reader", lambda: actions is not None)
        monkeypatch.setattr(profiler_reports, "_read_report", lambda _: actions)

    return install


def test_the_library_reads_the_report(library):
    library(LISTED)
    assert last({REPORT: b"r", CSV: PAGE}) == profiler_reports.ReadReport(name=REPORT, file=REPORT, actions=LISTED)


def test_a_page_that_differs_from_its_report_is_refused(library):
    library(LISTED[:1])
    with pytest.raises(EvidenceError, match=r"report-0\.csv does not show what .*report-0\.ncu-rep holds"):
        last({REPORT: b"r", CSV: PAGE})


def test_without_the_library_the_page_is_read(library):
    library()
    assert last({REPORT: b"r", CSV: PAGE}) == profiler_reports.ReadReport(name=REPORT, file=CSV, actions=LISTED)


@pytest.mark.parametrize(
    ("files", "actions", "code"),
    [
        ({}, None, Code.NO_TOOL_FILE),
        ({CSV: PAGE}, None, Code.NO_TOOL_FILE),
        ({REPORT: b"r"}, None, Code.NO_TOOL_FILE),
        ({REPORT: b"r", CSV: PAGE[:-50]}, None, Code.INVALID_REPORT),
        ({REPORT: b"r", CSV: PAGE}, INVALID, Code.INVALID_REPORT),
    ],
)
def test_what_cannot_be_read_is_missing(library, files, actions, code):
    library(actions)
    found = last(files).actions
    assert isinstance(found, Missing)
    assert found.code is code


def test_of_several_reports_the_last_one_with_the_workload_counts(library):
    library()
    later = PAGE.replace(b"red-race", b"red-last")
    files = {f"{FOLDER}/report-{number}.{end}": b"r" if end == "ncu-rep" else page for number, page in ((9, PAGE), (10, later)) for end in ("ncu-rep", "csv")}  # fmt: skip
    assert last(files, "red-clean").name.endswith("report-10.ncu-rep")
    assert last(files, "red-race").name.endswith("report-9.ncu-rep")


def test_the_reader_finds_what_this_process_finds_and_nothing_of_the_current_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(profiler_reports.sys, "path", ["", str(tmp_path), "/packages"])
    assert list(profiler_reports._import_paths()) == [str(Path(ncu.__file__).parents[2]), "/packages"]
