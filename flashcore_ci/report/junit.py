"""Render JUnit XML: one case per gate and target, valid for Jenkins's schema.

FAIL becomes ``<failure>``, INCONCLUSIVE ``<error>``, and waived, advisory and deferred checks ``<skipped>``. What was not judged
never looks green: a report without checks, or of a run that ended in an error, has an ``<error>`` case.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from junit_xml import TestCase, TestSuite

from flashcore_ci.model.reading import Measured
from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.report import formatting

MOST_MESSAGE = 1_000
MOST_OUTPUT = 8_000
_clean = formatting.clean_lines


def render(report: Report) -> str:
    """Return one XML document."""
    suites = [_suite(report, gate) for gate in dict.fromkeys(verdict.gate for verdict in report.verdicts)]
    if not report.verdicts or not formatting.is_judged(report):
        suites.insert(0, _error_suite(report))
    return _document([suite.build_xml_doc() for suite in suites])


def _suite(report: Report, gate: str) -> TestSuite:
    verdicts = [verdict for verdict in report.verdicts if verdict.gate == gate]
    properties = {**_properties(report), **{f"reading/{_clean(v.target)}": _clean(formatting.with_limit(v)) for v in verdicts}}
    return _test_suite(report, gate, [_case(report, verdict) for verdict in verdicts], properties)


def _test_suite(report: Report, name: str, cases: list[TestCase], properties: dict[str, str]) -> TestSuite:
    named = _clean(f"{report.suite}.{name}")
    return TestSuite(name=named, test_cases=cases, timestamp=_clean(report.as_of), properties=properties)


def _properties(report: Report) -> dict[str, str]:
    pairs = {
        "tool": f"flashcore-ci {report.tool}",
        "as-of": report.as_of,
        "outcome": str(report.outcome),
        "judged-commit": report.judged_commit or "unknown",
        "evidence": formatting.evidence_summary(report),
    }
    if report.provenance is not None:
        device = report.provenance.device
        pairs["collected-at"] = report.provenance.collected_at
        pairs["evidence-commit"] = report.provenance.commit
        pairs["commit"] = report.provenance.commit  # the name until 0.1
        if device is not None:
            pairs["device"] = f"{device.name}, driver {device.driver}"
    return {name: _clean(value) for name, value in pairs.items()}


def _case(report: Report, verdict: Verdict) -> TestCase:
    name, group = _clean(verdict.target), _clean(f"{report.suite}.{verdict.gate}")
    case = TestCase(name=name, classname=group, elapsed_sec=verdict.seconds, stdout=_clean(_facts(verdict)))
    message = formatting.plain(f"{verdict.reason.code}: {formatting.with_limit(verdict)}: {formatting.detail(verdict)}")
    prefix = _skip_prefix(verdict)
    message = formatting.shorten(f"{prefix}: {message}" if prefix else message, MOST_MESSAGE)
    if prefix:
        case.add_skipped_info(message=message, output=_detail(verdict))
    elif verdict.outcome is Outcome.FAIL:
        case.add_failure_info(message=message, output=_detail(verdict), failure_type=str(verdict.reason.code))
    elif verdict.outcome is Outcome.INCONCLUSIVE:
        case.add_error_info(message=message, output=_detail(verdict), error_type=str(verdict.reason.code))
    return case


def _skip_prefix(verdict: Verdict) -> str:
    if verdict.blocks:
        return ""
    if verdict.outcome is Outcome.WAIVED:
        return "waived"
    if verdict.deferred:
        return "deferred"
    return "advisory" if formatting.is_red(verdict) else ""


def _error_suite(report: Report) -> TestSuite:
    case = TestCase(name="run", classname=_clean(f"{report.suite}.flashcore-ci"))
    message = formatting.plain(report.headline) or "nothing was judged"
    output = _clean("\n".join((report.headline, *report.notes)))[:MOST_OUTPUT]
    message = formatting.shorten(message, MOST_MESSAGE)
    case.add_error_info(message=message, output=output, error_type=f"exit-code-{report.exit_code}")
    return _test_suite(report, "flashcore-ci", [case], _properties(report))


def _detail(verdict: Verdict) -> str:
    lines = [
        verdict.title,
        "" if verdict.reason.code in formatting.LIMIT_CODES else formatting.plain(verdict.reason.message),
        f"measured: {formatting.reading(verdict)}",
        f"limit: {formatting.limit(verdict)}",
        f"origin: {formatting.origin(verdict.origin)}",
        f"next: {formatting.plain(verdict.next_step)}" if verdict.next_step else "",
        f"why: {formatting.plain(verdict.why)}" if verdict.why else "",
        *(f"{finding.tool}: {formatting.locate_finding(finding)}" for finding in verdict.findings),
        *(f"{name}: {value}" for name, value in verdict.reason.facts),
        *(formatting.plain(note) for note in verdict.notes),
    ]
    return _clean("\n".join(line for line in lines if line))[:MOST_OUTPUT]


def _facts(verdict: Verdict) -> str:
    measured = verdict.reading if isinstance(verdict.reading, Measured) else None
    facts = {
        "gate": verdict.gate,
        "target": verdict.target,
        "outcome": verdict.outcome,
        "blocks": verdict.blocks,
        "code": verdict.reason.code,
        "value": None if measured is None else measured.value,
        "unit": verdict.unit if measured is None else measured.unit,
        "rule": verdict.rule,
        "limit": verdict.limit,
        "origin": formatting.origin(verdict.origin),
    }
    return json.dumps(facts, ensure_ascii=True, allow_nan=False)


def _document(suites: list[ET.Element]) -> str:
    """Write all suites, without ``disabled`` and with three decimals for times, as the schema demands."""
    root = ET.Element("testsuites")
    for count in ("errors", "failures", "tests"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    root.set("time", str(sum(float(suite.get("time", "0")) for suite in suites)))
    root.extend(suites)
    for element in root.iter():
        element.attrib.pop("disabled", None)
        if "time" in element.attrib:
            element.set("time", f"{float(element.attrib['time']):.3f}")
    ET.indent(root, space=" ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
