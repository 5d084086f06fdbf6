from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from golden.dossiers import DOSSIER
from golden.reports import GREEN, INCONCLUSIVE, RED

from flashcore_ci.model.codes import Code
from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.errors import CannotCollectError, EvidenceError, InterruptedRunError, SuiteError
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.verdict import Outcome, Reason, Report
from flashcore_ci.run import reports
from flashcore_ci.store.run import REPORTS


def unreached() -> Report:
    """The judge's answer when there is no evidence at all."""
    missing = Missing(code=Code.NO_EVIDENCE, message="none")
    verdicts = tuple(
        replace(v, reading=missing, reason=Reason(code=Code.NO_EVIDENCE, message="none")) if v.blocks else v
        for v in INCONCLUSIVE.verdicts
    )
    return replace(INCONCLUSIVE, verdicts=verdicts)


def test_every_file_is_written_and_the_records_are_read_back(tmp_path: Path) -> None:
    reports.write(tmp_path / "new", RED, DOSSIER)
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(reports.FILES) == set(REPORTS)
    for path in (tmp_path / "new", tmp_path / "new" / "report.json"):
        assert reports.read(path) == RED
        assert reports.read_dossier(path) == DOSSIER


def test_a_report_without_a_dossier_has_an_empty_one(tmp_path: Path) -> None:
    reports.write(tmp_path, RED, DOSSIER)
    (tmp_path / reports.DOSSIER).unlink()
    assert reports.read_dossier(tmp_path) == Dossier()


def test_writing_again_gives_the_same_bytes_and_leaves_the_records_alone(tmp_path: Path) -> None:
    reports.write(tmp_path, RED, DOSSIER)
    before = {name: (tmp_path / name).read_bytes() for name in reports.FILES}
    for name in set(reports.FILES) - {reports.REPORT, reports.DOSSIER}:
        (tmp_path / name).unlink()
    (tmp_path / reports.DOSSIER).chmod(0o400)
    assert reports.rewrite(tmp_path) == RED
    assert {name: (tmp_path / name).read_bytes() for name in reports.FILES} == before
    assert (tmp_path / reports.DOSSIER).stat().st_mode & 0o777 == 0o400


def test_a_folder_without_report_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match=r"report\.json"):
        reports.read(tmp_path)


def test_old_reports_go_and_nothing_else_does(tmp_path: Path) -> None:
    reports.write(tmp_path, GREEN, DOSSIER)
    (tmp_path / "mine").write_text("mine")
    reports.clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_run_without_plan_is_an_error_in_every_format(tmp_path: Path) -> None:
    error = SuiteError(("gates/x.toml: one", "gates/x.toml: two"), fix="mend it")
    report = reports.unplanned(error, suite="gates/x.toml", as_of="2026-11-21T08:00:00Z")
    assert (report.exit_code, report.outcome, report.headline) == (3, Outcome.INCONCLUSIVE, "gates/x.toml: one")
    assert "gates/x.toml: two" in report.notes
    reports.write(tmp_path, report, Dossier())
    root = ET.parse(tmp_path / "junit.xml").getroot()
    assert (root.get("tests"), root.get("errors")) == ("1", "1")
    assert "gates/x.toml: two" in (tmp_path / "summary.md").read_text()


def test_an_error_never_leaves_a_pass() -> None:
    report = reports.ended_by(CannotCollectError("no ncu", fix="install it"), GREEN)
    assert (report.outcome, report.exit_code, report.headline) == (Outcome.INCONCLUSIVE, 4, "no ncu")
    assert "fix: install it" in report.notes


def test_an_interrupted_run_says_which_checks_were_not_reached() -> None:
    report = reports.ended_by(InterruptedRunError("stopped"), unreached())
    codes = [verdict.reason.code for verdict in report.verdicts]
    assert codes == [Code.WITHIN_LIMIT] * 2 + [Code.INTERRUPTED] * 30
    assert {v.reading.code for v in report.verdicts if v.blocks} == {Code.INTERRUPTED}
    assert (report.outcome, report.exit_code) == (Outcome.INCONCLUSIVE, 11)


def test_an_interrupted_run_that_had_failed_stays_failed() -> None:
    report = reports.ended_by(InterruptedRunError("stopped"), RED)
    assert (report.outcome, report.exit_code) == (Outcome.FAIL, 10)


def test_what_was_stale_before_the_interruption_stays_stale() -> None:
    report = reports.ended_by(InterruptedRunError("stopped"), INCONCLUSIVE)
    assert {v.reason.code for v in report.verdicts if v.blocks} == {Code.STALE_EVIDENCE}


def test_a_bug_is_named_as_one() -> None:
    report = reports.ended_by(ZeroDivisionError("by zero"), GREEN)
    assert (report.exit_code, report.headline) == (1, "a bug in the tool: ZeroDivisionError: by zero")
