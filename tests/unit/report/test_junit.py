from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import lxml.etree
import pytest
from golden.reports import ERROR, GREEN, HOSTILE, RED, REPORTS, SHADES, passed, verdict
from hypothesis import given, settings
from hypothesis import strategies as st

from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.verdict import Outcome, Report
from flashcore_ci.report import junit

SCHEMA = lxml.etree.XMLSchema(lxml.etree.parse(Path(__file__).parents[2] / "schemas" / "junit.xsd"))


def valid(report: Report) -> ET.Element:
    text = junit.render(report)
    SCHEMA.assertValid(lxml.etree.fromstring(text.encode()))
    return ET.fromstring(text)


def case(report: Report, gate: str, target: str) -> ET.Element:
    found = [c for c in valid(report).iter("testcase") if c.get("classname").endswith(f".{gate}") and c.get("name") == target]
    assert len(found) == 1
    return found[0]


def sums(root: ET.Element, attribute: str) -> int:
    return sum(int(suite.get(attribute)) for suite in root.iter("testsuite"))


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_is_valid(name: str) -> None:
    valid(REPORTS[name])


def test_the_schema_refuses_what_jenkins_refuses() -> None:
    good = junit.render(RED)
    for bad in (
        good.replace("<testsuites ", '<testsuites disabled="0" '),
        good.replace('time="1.235"', 'time="1e-07"', 1),
        good.replace("<failure ", "<broken ", 1).replace("</failure>", "</broken>", 1),
    ):
        assert bad != good
        assert not SCHEMA.validate(lxml.etree.fromstring(bad.encode()))


def test_one_case_per_gate_and_target() -> None:
    root = valid(RED)
    names = [(c.get("classname"), c.get("name")) for c in root.iter("testcase")]
    assert sorted(names) == sorted((f"{RED.suite}.{v.gate}", v.target) for v in RED.verdicts)
    assert int(root.get("tests")) == len(RED.verdicts)


def test_outcomes_become_the_elements_that_consumers_count() -> None:
    root = valid(RED)
    assert (sums(root, "failures"), sums(root, "errors"), sums(root, "skipped")) == (3, 1, 0)
    assert case(RED, "max-diff", "gqa-bf16-b2-h32-s1023-d128").find("failure").get("type") == "over-limit"
    assert case(RED, "stability", "stream-2gib").find("error").get("type") == "unsettled"


@pytest.mark.parametrize(
    ("gate", "target", "prefix"),
    [
        ("sol-sm", "prefill-fp16-b64-h16-s512-d64", "advisory: "),
        ("max-diff", "prefill-bf16-b16-h16-s2048-d64", "deferred: "),
        ("stability", "short-fp16-b1-h16-s512-d64", "waived: "),
    ],
)
def test_what_does_not_block_is_skipped_and_says_why(gate: str, target: str, prefix: str) -> None:
    found = case(SHADES, gate, target)
    assert found.find("skipped").get("message").startswith(prefix)
    assert found.find("failure") is None
    assert found.find("error") is None


def test_what_blocks_is_never_skipped_whatever_else_it_says() -> None:
    odd = verdict("finite", "w", 1.0, Outcome.FAIL, Code.OVER_LIMIT, "one", deferred=True)
    assert case(replace(GREEN, verdicts=(odd,)), "finite", "w").find("failure") is not None


def test_a_red_verdict_without_words_is_still_red() -> None:
    mute = verdict("finite", "w", 1.0, Outcome.FAIL, Code.OVER_LIMIT, "", next_step="", why="", title="")
    assert case(replace(GREEN, verdicts=(mute,)), "finite", "w").find("failure") is not None


def test_a_report_without_checks_is_an_error() -> None:
    root = valid(replace(GREEN, verdicts=(), headline=""))
    assert (int(root.get("tests")), int(root.get("errors"))) == (1, 1)
    assert root.find(".//error").get("message")


def test_a_run_that_an_error_ended_is_an_error_whatever_was_judged() -> None:
    root = valid(replace(GREEN, exit_code=4, headline="the GPU is gone"))
    assert int(root.get("errors")) == 1
    assert root.find(".//error").get("message") == "the GPU is gone"
    assert ERROR.headline in junit.render(ERROR)


def test_numbers_are_in_properties_and_in_a_json_line() -> None:
    root = valid(RED)
    readings = {p.get("name"): p.get("value") for p in root.iter("property") if p.get("name").startswith("reading/")}
    assert readings["reading/gqa-bf16-b2-h32-s1023-d128"] == "2.0004e-3 (limit 2e-3)"
    facts = json.loads(case(RED, "max-diff", "gqa-bf16-b2-h32-s1023-d128").find("system-out").text)
    assert (facts["value"], facts["unit"], facts["rule"], facts["limit"]) == (0.0020004, "abs", "<", 0.002)
    facts = json.loads(case(RED, "finite", "prefill-fp16-b16-h16-s2048-d64").find("system-out").text)
    assert facts["value"] is None


def test_every_red_case_shows_reading_limit_origin_and_next_step() -> None:
    for element in valid(RED).iter("testcase"):
        for red in [*element.findall("failure"), *element.findall("error")]:
            for word in ("measured: ", "limit: ", "origin: ", "next: "):
                assert word in red.text


def test_endless_output_is_cut() -> None:
    assert len(junit.render(HOSTILE)) < 20_000


@given(text=st.text(st.characters(codec=None)), seconds=st.floats(min_value=0, max_value=1e7))
@settings(max_examples=200)
def test_any_text_and_time_stay_valid(text: str, seconds: float) -> None:
    hostile = verdict("finite", text, Missing(code=Code.RAISED, message=text), Outcome.FAIL, Code.RAISED, text, seconds=seconds)
    report = replace(GREEN, suite=text, headline=text, verdicts=(hostile, passed("finite", "w", 0.0)), exit_code=1, notes=(text,))
    root = valid(report)
    assert (sums(root, "failures"), sums(root, "errors")) == (1, 1)
