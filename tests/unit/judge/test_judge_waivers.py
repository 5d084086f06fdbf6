from dataclasses import replace

import pytest
from evidence_factories import with_reading
from factories import CHECKS, FINITE, make_waiver
from judging import GOOD, RED, judged, only

from flashcore_ci.judge import waivers
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Outcome


class TestWaivers:
    def test_a_failed_check_is_waived_with_a_note(self):
        report = judged(RED, waivers=(make_waiver(),))
        verdict = only(report, "finite")
        assert (verdict.outcome, verdict.blocks) == (Outcome.WAIVED, False)
        assert verdict.reason.code is Code.OVER_LIMIT
        assert verdict.notes == ("waived until 2026-12-31 by kernels: known, see the tuning log",)
        assert report.headline == "PASS: 6 of 7 checks passed, 1 waived"
        assert report.waivers == (make_waiver(),)

    def test_a_missing_reading_is_never_waived(self):
        report = judged(waivers=tuple(make_waiver(*check.key, codes=tuple(Code)) for check in CHECKS))
        assert {verdict.outcome for verdict in report.verdicts} == {Outcome.INCONCLUSIVE}
        assert "the waiver of finite on big is for " in "".join(report.notes)

    @pytest.mark.parametrize("code", [Code.CRASH, Code.HANG, Code.NOT_FINITE, Code.CONTROL_FAILED, Code.TOOL_LOST_TRACK])
    def test_a_crash_or_a_failed_control_is_never_waived(self, code):
        crashed = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Missing(code=code, message="it"))
        for codes in ((Code.OVER_LIMIT,), (code,), tuple(Code)):
            assert only(judged(crashed, waivers=(make_waiver(codes=codes),)), "finite").blocks

    def test_a_waiver_covers_the_codes_that_it_names(self):
        report = judged(RED, waivers=(make_waiver(codes=(Code.UNDER_LIMIT, Code.DRIFTED)),))
        assert only(report, "finite").outcome is Outcome.FAIL
        assert "the waiver of finite on big is for under-limit, drifted, and the check is over-limit" in report.notes
        assert only(judged(RED, waivers=(make_waiver(codes=(Code.OVER_LIMIT,)),)), "finite").outcome is Outcome.WAIVED

    @pytest.mark.parametrize(
        ("expires", "outcome"), [("2027-11-22", Outcome.WAIVED), ("2027-11-23", Outcome.FAIL), ("9999-12-31", Outcome.FAIL)]
    )
    def test_a_waiver_of_more_than_a_year_has_no_effect(self, expires, outcome):
        report = judged(RED, waivers=(make_waiver(expires=expires),))
        assert only(report, "finite").outcome is outcome
        said = f"the waiver of finite on big would end on {expires}, in more than a year, and has no effect"
        assert (said in report.notes) == (outcome is Outcome.FAIL)

    @pytest.mark.parametrize(
        ("as_of", "outcome"),
        [
            ("2026-12-31T23:59:59Z", Outcome.WAIVED),
            ("2026-12-31", Outcome.WAIVED),
            ("2026-12-31T23:59:59", Outcome.WAIVED),
            ("2027-01-01T00:00:00Z", Outcome.FAIL),
            ("2027-01-01T01:00:00+02:00", Outcome.WAIVED),
            ("2026-12-31T23:00:00-02:00", Outcome.FAIL),
        ],
    )
    def test_a_waiver_is_active_until_the_end_of_its_last_day_in_utc(self, as_of, outcome):
        assert only(judged(RED, waivers=(make_waiver(),), as_of=as_of), "finite").outcome is outcome

    def test_an_invalid_day_is_an_error(self):
        with pytest.raises(ValueError):
            judged(GOOD, as_of="tomorrow")

    @pytest.mark.parametrize(
        ("waiver", "evidence", "note"),
        [
            (make_waiver(expires="2026-11-20"), RED, "the waiver of finite on big ended on 2026-11-20 and has no effect"),
            (make_waiver("finite", "bog"), GOOD, "the waiver of finite on bog matches no check of this plan"),
            (make_waiver(), GOOD, "the waiver of finite on big is not needed: the check passes"),
        ],
    )
    def test_waivers_without_effect_are_noted(self, waiver, evidence, note):
        assert note in judged(evidence, waivers=(waiver,)).notes

    def test_a_waiver_covers_one_check_and_no_other(self):
        red = with_reading(RED, Kind.CORRECTNESS, "small", FINITE.metric, Measured(value=1.0, unit="count"))
        report = judged(red, waivers=(make_waiver(),))
        assert only(report, "finite", "small").outcome is Outcome.FAIL
        assert report.headline == "FAIL: 1 of 7 checks blocks this merge"


class TestSuppressions:
    FOUND = Finding(tool="initcheck", message="Uninitialized read", kernel="k", file="k.cu", line=7, count=2)
    OTHER = Finding(tool="initcheck", message="Uninitialized read", kernel="k", file="k.cu", line=8)

    def covers(self, *findings, name="k k.cu:7 Uninitialized read", value=None):
        total = float(sum(one.count for one in findings)) if value is None else value
        verdict = replace(only(judged(RED), "finite"), findings=findings, reading=Measured(value=total, unit="count"))
        return waivers.covers(make_waiver(finding=name), verdict)

    def test_every_finding_must_match(self):
        assert self.covers(self.FOUND)
        assert self.covers(self.FOUND, self.OTHER, name="k k.cu:* Uninitialized read")
        assert self.covers(replace(self.FOUND, message="Uninitialized read of 4 bytes"), name="k k.cu:7 Uninitialized read*")
        assert not self.covers(self.FOUND, self.OTHER)

    @pytest.mark.parametrize(
        "change", [{"kernel": "kk"}, {"file": "kk.cu"}, {"line": 77}, {"message": "Uninitialized reads"}, {"file": ""}]
    )
    def test_another_finding_is_not_suppressed(self, change):
        assert not self.covers(replace(self.FOUND, **change))

    @pytest.mark.parametrize("name", ["*", "k k.cu:7 *", "* k.cu:7 Uninitialized read", "k *:7 Uninitialized read", "k k.cu:*"])
    def test_a_catch_all_suppresses_nothing(self, name):
        assert not self.covers(self.FOUND, name=name)

    def test_findings_that_were_not_printed_are_not_suppressed(self):
        assert not self.covers(self.FOUND, value=3.0)
        assert not self.covers(value=2.0)
        assert not self.covers()

    def test_a_failure_without_findings_is_not_suppressed(self):
        report = judged(RED, waivers=(make_waiver(finding="k k.cu:7 Uninitialized read"),))
        assert only(report, "finite").outcome is Outcome.FAIL
        assert any("is for findings like 'k k.cu:7 Unin" in note for note in report.notes)

    def test_a_suppression_shows_its_findings(self):
        verdict = replace(only(judged(RED), "finite"), findings=(self.FOUND,), reading=Measured(value=2.0, unit="count"))
        waiver = make_waiver(finding="k k.cu:7 Uninitialized read")
        found = waivers.apply_waivers(verdict, (waiver,), waivers.day_of("2026-11-21"))
        assert found.outcome is Outcome.WAIVED
        assert found.notes[-1].startswith("suppressed (k k.cu:7 Uninitialized read) until 2026-12-31 by kernels: ")
        assert waivers.apply_waivers(verdict, (waiver,), waivers.day_of("2027-01-01")).outcome is Outcome.FAIL
