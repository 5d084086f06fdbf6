"""JUnit XML for CI: one case per gate and target, valid against the schema that Jenkins reads.

FAIL is a ``<failure>``, INCONCLUSIVE an ``<error>``; WAIVED, red advisory and deferred checks are ``<skipped>`` with a message
that says which, so that no consumer blocks on them. A report without checks, or of a run that an error ended, holds an
``<error>`` case: nothing that was not judged looks green.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from junit_xml import TestCase, TestSuite, to_xml_report_string

from flashcore_ci.model.errors import ExitCode
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.report import formatting

MOST_MESSAGE = 1_000
MOST_OUTPUT = 8_000
VERDICT_CODES = frozenset({ExitCode.PASSED, ExitCode.GATE_FAILED, ExitCode.INCONCLUSIVE})


def render(report: Report) -> str:
    """The report as one XML document with a declaration and a final newline."""
    suites = [_suite(report, gate) for gate in dict.fromkeys(verdict.gate for verdict in report.verdicts)]
    if not report.verdicts or report.exit_code not in VERDICT_CODES:
        suites.insert(0, _error_suite(report))
    text = to_xml_report_string(suites, prettyprint=False)
    return _mended(text)


def _suite(report: Report, gate: str) -> TestSuite:
    verdicts = [verdict for verdict in report.verdicts if verdict.gate == gate]
    properties = {**_properties(report), **{f"reading/{_clean(v.target)}": _reading(v) for v in verdicts}}
    return TestSuite(
        name=_clean(f"{report.suite}.{gate}"),
        test_cases=[_case(report, verdict) for verdict in verdicts],
        timestamp=_clean(report.as_of),
        properties=properties,
    )


def _properties(report: Report) -> dict[str, str]:
    pairs = {"tool": f"flashcore-ci {report.tool}", "as-of": report.as_of, "outcome": str(report.outcome)}
    if report.provenance is not None:
        device = report.provenance.device
        pairs["collected-at"] = report.provenance.collected_at
        pairs["commit"] = report.provenance.commit
        if device is not None:
            pairs["device"] = f"{device.name}, driver {device.driver}"
    return {name: _clean(value) for name, value in pairs.items()}


def _case(report: Report, verdict: Verdict) -> TestCase:
    case = TestCase(
        name=_clean(verdict.target),
        classname=_clean(f"{report.suite}.{verdict.gate}"),
        elapsed_sec=verdict.seconds,
        stdout=_clean(_facts(verdict)),
    )
    message = formatting.printable(f"{verdict.reason.code}: {_reading(verdict)}: {verdict.reason.message}")
    prefix = _skip_prefix(verdict)
    if prefix:
        case.add_skipped_info(message=formatting.shorten(f"{prefix}: {message}", MOST_MESSAGE), output=_detail(verdict))
    elif verdict.outcome is Outcome.FAIL:
        case.add_failure_info(
            message=formatting.shorten(message, MOST_MESSAGE), output=_detail(verdict), failure_type=str(verdict.reason.code)
        )
    elif verdict.outcome is Outcome.INCONCLUSIVE:
        case.add_error_info(
            message=formatting.shorten(message, MOST_MESSAGE), output=_detail(verdict), error_type=str(verdict.reason.code)
        )
    return case


def _skip_prefix(verdict: Verdict) -> str:
    """Why the case is skipped; empty when it is not. What blocks is never skipped."""
    if verdict.blocks:
        return ""
    if verdict.outcome is Outcome.WAIVED:
        return "waived"
    if verdict.deferred:
        return "deferred"
    return "advisory" if formatting.is_red(verdict) else ""


def _error_suite(report: Report) -> TestSuite:
    case = TestCase(name="run", classname=_clean(f"{report.suite}.flashcore-ci"))
    message = formatting.printable(report.headline) or "nothing was judged"
    case.add_error_info(
        message=formatting.shorten(message, MOST_MESSAGE),
        output=_clean("\n".join((report.headline, *report.notes)))[:MOST_OUTPUT],
        error_type=f"exit-code-{report.exit_code}",
    )
    return TestSuite(
        name=_clean(f"{report.suite}.flashcore-ci"),
        test_cases=[case],
        timestamp=_clean(report.as_of),
        properties=_properties(report),
    )


def _reading(verdict: Verdict) -> str:
    return _clean(f"{formatting.reading(verdict)}, limit {formatting.limit(verdict)}")


def _detail(verdict: Verdict) -> str:
    lines = [
        verdict.title,
        verdict.reason.message,
        f"measured: {formatting.reading(verdict)}",
        f"limit: {formatting.limit(verdict)}",
        f"origin: {formatting.origin(verdict.origin)}",
        f"next: {verdict.next_step}" if verdict.next_step else "",
        f"why: {verdict.why}" if verdict.why else "",
        *(f"{finding.tool}: {formatting.located(finding)}" for finding in verdict.findings),
        *(f"{name}: {value}" for name, value in verdict.reason.facts),
        *verdict.notes,
    ]
    return _clean("\n".join(line for line in lines if line))[:MOST_OUTPUT]


def _facts(verdict: Verdict) -> str:
    """One line of JSON for programs: everything that this verdict compared."""
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


def _clean(text: str) -> str:
    """``text`` without what XML 1.0 forbids and without lone surrogates; lines are kept."""
    return formatting.clean_lines(text)


def _mended(text: str) -> str:
    """The library's document without ``disabled`` and with times of three decimals, which the schema demands."""
    root = ET.fromstring(text)  # noqa: S314 - our own document of a moment ago, which declares no entities
    for element in root.iter():
        element.attrib.pop("disabled", None)
        if "time" in element.attrib:
            element.set("time", f"{float(element.attrib['time']):.3f}")
    ET.indent(root, space=" ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
