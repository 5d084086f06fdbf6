from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace

import pytest
from evidence_factories import make_observation
from factories import make_build, make_entry_build, make_entry_spec, make_workload
from golden.dossiers import DOSSIER, DOSSIERS, TIMED
from golden.reports import ERROR, GREEN, HOSTILE, RED, REPORTS, SHADES, passed, verdict
from reading_html import Page, read

from flashcore_ci.model.codes import Code
from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.reading import Histogram, Measured, Missing
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Outcome, Report
from flashcore_ci.report import formatting
from flashcore_ci.report.html import page

ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "nav", "section", "div", "span", "p", "a"),
    *("b", "i", "h1", "h2", "h3", "h4", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre"),
    *("code", "mark", "fieldset", "legend", "label", "input", "figure", "figcaption"),
    *("svg", "symbol", "use", "line", "rect", "circle", "polyline", "path", "text"),
}  # fmt: skip


def page_of(report: Report, dossier: Dossier = DOSSIER) -> Page:
    return read(page.render(report, dossier))


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_is_a_whole_page_with_a_dossier_and_without(name: str) -> None:
    for dossier in (DOSSIERS[name], Dossier()):
        found = page_of(REPORTS[name], dossier)
        ids = found.values("id")
        assert len(ids) == len(set(ids))
        assert {href.removeprefix("#") for href in found.values("href")} <= set(ids)
        assert {name for value in found.values("aria-labelledby") for name in value.split()} <= set(ids)
        assert found.tags() <= ELEMENTS


@pytest.mark.parametrize("name", REPORTS)
def test_nothing_is_loaded_and_nothing_runs(name: str) -> None:
    text = page.render(REPORTS[name], DOSSIERS[name])
    found = read(text)
    assert not {"src", "srcset", "action", "style", "xlink:href", "data"} & {key for _, has in found.elements for key in has}
    assert not [key for _, has in found.elements for key in has if key.startswith("on")]
    assert all(href.startswith("#") for href in found.values("href"))
    assert "url(" not in text
    assert "@import" not in text


def test_the_policy_lets_the_pages_own_style_in_and_nothing_else() -> None:
    text = page.render(GREEN, DOSSIER)
    style = re.search("<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    (policy,) = [has["content"] for _, has in read(text).elements if has.get("http-equiv") == "Content-Security-Policy"]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_the_verdict_comes_first() -> None:
    found = page_of(RED)
    headings = [tag for tag, _ in found.elements if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == "h1"
    assert headings.count("h1") == 1
    assert found.text.index("4 of 10 checks block this merge") < found.text.index("max-diff")


def test_the_header_names_the_evidence_and_both_commits_and_a_pass_is_green() -> None:
    found = page_of(GREEN)
    assert "All 6 checks were judged live (H200, 2026-11-21)." in found.text
    assert "Judged commit 89abcde, evidence of commit 0123456." in found.text
    assert "✓ correctness 2 of 2" in found.text
    assert "verdict PASS" in found.values("class")
    assert "✓ correctness 2 of 2" not in page_of(RED).text


def test_what_blocks_comes_before_the_checks_and_what_is_advisory_after_them() -> None:
    found = page_of(replace(SHADES, verdicts=(*SHADES.verdicts, *RED.verdicts)))
    sections = [has["id"] for tag, has in found.elements if tag == "section"]
    assert sections[:5] == ["blocking", "deferred", "checks", "advisory", "waived"]
    assert "advisory" in found.values("class")


def test_code_in_our_texts_is_code() -> None:
    assert "<code>flashcore-ci</code> must not let a wrong kernel merge" in page.render(RED, DOSSIER)


def test_no_label_of_a_chart_is_on_a_line_with_another() -> None:
    """A unit once stood where the first tick is: ``Mcycle0.4805``."""
    text = page.render(GREEN, DOSSIER)
    units = {float(y) for y in re.findall(r'y="([\d.]+)" class="t middle">Mcycles<', text)}
    numbers = {float(y) for y in re.findall(r'y="([\d.]+)" class="t middle">[\d.]+<', text)}
    assert units
    assert not units & numbers


def test_the_matrix_has_every_verdict() -> None:
    found = page_of(RED)
    for each in RED.verdicts:
        titles = [has.get("title") for _, has in found.elements]
        assert formatting.with_limit(each) in titles
        assert str(each.reason.code) in found.text or isinstance(each.reading, Measured)
    assert found.text.count("does not apply") >= 1


def test_a_change_to_the_better_is_a_number_too() -> None:
    text = page.render(replace(GREEN, verdicts=(passed("stability", TIMED[0], -0.512),)), DOSSIER)
    assert "-0.512 %</span>" in text


def test_colour_is_not_the_only_sign() -> None:
    text = page.render(RED, DOSSIER)
    for sign, outcome in (("✓", "PASS"), ("✗", "FAIL"), ("?", "INCONCLUSIVE")):
        assert f'<b aria-hidden="true">{sign}</b><span class="hidden">{outcome}</span>' in text


def test_every_picture_has_words_and_every_scrolling_region_a_name() -> None:
    found = page_of(RED)
    for tag, has in found.elements:
        if tag == "i":
            assert re.fullmatch(r"used( near| over)? u(\d|1\d|20)", has["class"])
        if tag == "svg":
            assert has.get("aria-hidden") == "true" or (has["role"] == "img" and has["aria-label"])
        if "tabindex" in has:
            assert has["role"] == "region"
            assert has["aria-label"]
    assert found.values("lang") == ["en"]


def test_a_timed_workload_has_a_panel_that_its_row_leads_to() -> None:
    text = page.render(GREEN, DOSSIER)
    for number, name in enumerate(TIMED, start=1):
        assert f'<a href="#w{number}">{name}</a>' in text
    for title in (
        "Every process",
        "SM clock (MHz) and throttling",
        "Roofline (FLOP/s)",
        "Speed of light",
        "Errors against float64",
    ):
        assert text.count(f"<h4>{title}</h4>") == len(TIMED)


def test_base_and_head_are_drawn_where_both_were_measured() -> None:
    found = page_of(GREEN)
    assert "8 rounds, one dot per process. Median change +1.04 %." in found.text
    assert "No base: none was measured." in found.text
    assert sum(has.get("class") == "dot base" for _, has in found.elements) == 8


def test_why_there_is_one_side_only() -> None:
    same = make_observation(Kind.COMPARISON, TIMED[1], readings=(("comparison/same-code", Measured(value=1.0, unit="count")),))
    dossier = replace(DOSSIER, observations=(*DOSSIER.observations, same))
    assert "No base: it is the same code." in page_of(GREEN, dossier).text
    lost = make_observation(Kind.COMPARISON, TIMED[1], missing=Missing(code=Code.NO_BASE, message="the base lacks it"))
    dossier = replace(DOSSIER, observations=(*DOSSIER.observations, lost))
    assert "no-base: the base lacks it" in page_of(GREEN, dossier).text


def test_what_was_not_measured_is_said() -> None:
    found = page_of(replace(GREEN, verdicts=(passed("stability", "w", 0.1),)), Dossier(workloads=(make_workload("w"),)))
    assert "No data: this workload was not timed." in found.text
    assert "No data: its outputs were not compared." in found.text


def test_errors_are_drawn_where_they_were_counted() -> None:
    counted = Histogram(first=-20, counts=(0, 3, 1000, 0), zeros=7, not_finite=0, unit="abs")
    theirs = Histogram(first=-22, counts=(5, 0), zeros=0, not_finite=0, unit="abs")
    seen = make_observation(Kind.CORRECTNESS, TIMED[0], histograms=(("error/ours/out", counted), ("error/pytorch/out", theirs)))
    found = page_of(GREEN, replace(DOSSIER, observations=(*DOSSIER.observations, seen)))
    assert "out: 1,010 elements, 7 exact, 0 not finite. Counts between powers of two. Outline: PyTorch's errors." in found.text
    assert [has.get("class") for _, has in found.elements].count("bar outline") == 1
    old = make_observation(Kind.CORRECTNESS, TIMED[0], notes=("largest difference in out[0]: 1, PyTorch 2",))
    found = page_of(GREEN, replace(DOSSIER, observations=(*DOSSIER.observations, old)))
    assert (
        "No data: this recording is older than the error histograms. Its largest errors are below. largest difference in out[0]"
        in found.text
    )


def test_of_the_others_errors_those_nearest_to_what_is_allowed_are_drawn() -> None:
    counted = Histogram(first=-20, counts=(1,) * 30, zeros=0, not_finite=0, unit="abs")
    seen = [
        make_observation(
            Kind.CORRECTNESS,
            f"w{n}",
            histograms=(("error/ours/out", counted),),
            readings=(("error/ratio", Measured(value=float(n), unit="ratio")),),
        )
        for n in range(100)
    ]
    dossier = replace(DOSSIER, observations=tuple(seen), workloads=tuple(make_workload(one.target) for one in seen))
    found = page_of(GREEN, dossier)
    assert "the 30 of 100 nearest to their limit" in found.text
    assert "w99" in found.text
    assert "w69 " not in found.text


def test_a_finding_shows_its_source() -> None:
    text = page.render(RED, DOSSIER)
    assert "kernel/include/flashcore/attention/body.cuh:112" in text
    assert "<mark>112    shared[row] = total;</mark>" in text
    assert "shared[row ^ 1] &lt; total" in text
    assert "The source is not in this checkout." in page_of(RED, replace(DOSSIER, excerpts=())).text


def test_budgets() -> None:
    entry = make_entry_build("scale_f32", highest_register=40, static_shared_bytes=1024, dynamic_shared_bytes=232_448)
    spec = replace(DOSSIER.descriptions[0].build, entries=(make_entry_spec("scale_f32", max_registers=32),))
    dossier = replace(DOSSIER, descriptions=(replace(DOSSIER.descriptions[0], build=spec),))
    report = replace(GREEN, builds=(make_build(entries=(entry,)),))
    assert page.render(report, dossier).count('class="used over"') == 2
    assert "40 of 32" in page_of(report, dossier).text
    assert "40, budget unknown" in page_of(report, Dossier()).text


def test_how_to_repeat_it() -> None:
    found = page_of(RED)
    assert f"git checkout {RED.judged_commit}" in found.text
    assert "flashcore-ci gate --suite gates/hopper.toml --live --only racecheck/small-fp16-s113-d64" in found.text
    assert "--only 'finite/weird-" in page_of(HOSTILE).text


def test_an_error_of_the_tool_is_a_page_too() -> None:
    found = page_of(ERROR, Dossier())
    assert "did you mean max-diff?" in found.text
    assert "Nothing was judged." in found.text


def test_a_huge_report_stays_a_page_and_loses_nothing_red() -> None:
    many = tuple(passed("finite", f"w{number}", 0.0) for number in range(5_000))
    red = verdict("finite", "the-red-one", 1.0, Outcome.FAIL, Code.OVER_LIMIT, "m")
    text = page.render(replace(RED, verdicts=(*many, red)), DOSSIER)
    assert len(text.encode()) < 500_000
    assert text.count("the-red-one") >= 2
    assert "4601 more rows, all passes, are in report.json." in read(text).text
