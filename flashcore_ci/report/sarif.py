"""Render SARIF 2.1.0: red checks, findings and build warnings, at their lines.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. Viewers hide the kind ``open``, which then looks like a pass, so
an inconclusive check is a result like a failed one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.evidence import EntryBuild, Finding
from flashcore_ci.model.suite import Scope, Severity
from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.report import formatting

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "SRCROOT"
MOST_RESULTS = 5_000
"""GitHub's limit per run (docs.github.com, "SARIF support for code scanning")."""
MOST_MESSAGE = 1_000
WARNING = "build-warning"

Json = dict[str, Any]
_clean = formatting.printable


def render(report: Report, dossier: Dossier) -> str:
    """Return one SARIF log with a single run."""
    run = {
        "tool": {"driver": {"name": "flashcore-ci", "version": _clean(report.tool) or "unknown", "rules": _rules(report)}},
        "automationDetails": {"id": f"flashcore-ci/{_clean(report.suite)}/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the checkout."}}},
    }
    results = list(_results(report, dossier))
    run["invocations"] = [_invocation(report, len(results) - MOST_RESULTS)]
    run["results"] = results[:MOST_RESULTS]
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _rules(report: Report) -> list[Json]:
    first: dict[str, Verdict] = {}
    for verdict in report.verdicts:
        first.setdefault(verdict.gate, verdict)
    rules = [_rule(verdict) for verdict in first.values()]
    if any(entry.warnings for build in report.builds for entry in build.entries):
        text = "ptxas gave a warning about speed, for example about registers that setmaxnreg could not grant."
        rule: Json = {"id": WARNING, "name": WARNING, "shortDescription": {"text": "The compiler warned"}}
        rule |= {"help": {"text": text, "markdown": text}, "defaultConfiguration": {"level": "warning"}}
        rules.append(rule)
    return rules


def _rule(verdict: Verdict) -> Json:
    limit = f"The value must be {formatting.condition(verdict.rule, verdict.limit, verdict.unit)}. A missing value is red too."
    steps = f"Run `flashcore-ci explain {_clean(verdict.gate)}` to see what the gate checks and why."
    why = _clean(verdict.why or verdict.title).rstrip(".")
    return {
        "id": _clean(verdict.gate),
        "name": _clean(verdict.gate),
        "shortDescription": {"text": _clean(verdict.title) or _clean(verdict.gate)},
        "fullDescription": {"text": formatting.plain(f"{verdict.title}: {why}")},
        "help": {"text": formatting.plain(f"{why}. {limit} {steps}"), "markdown": f"{why}.\n\n{limit}\n\n{steps}"},
        "defaultConfiguration": {"level": "error" if verdict.severity is Severity.BLOCKING else "warning"},
        "properties": {"evidence": str(verdict.evidence)},
    }


def _results(report: Report, dossier: Dossier) -> Iterator[Json]:
    shown = [v for v in report.verdicts if v.outcome is not Outcome.PASS]
    for verdict in sorted(shown, key=lambda v: (not v.blocks, v.outcome is not Outcome.FAIL)):
        if verdict.findings:
            yield from (_result(report, dossier, verdict, finding) for finding in verdict.findings)
        else:
            yield _result(report, dossier, verdict, None)
    for build in report.builds:
        for entry in build.entries:
            yield from (_warning(entry, warning) for warning in entry.warnings)


def _result(report: Report, dossier: Dossier, verdict: Verdict, finding: Finding | None) -> Json:
    what = f"{finding.tool}: {formatting.describe_finding(finding)}" if finding else formatting.plain(formatting.detail(verdict))
    text = f"{formatting.label(verdict)} {verdict.reason.code}: {verdict.target}: {formatting.with_limit(verdict)}: {what}"
    next_step = f"\nNext: {formatting.plain(verdict.next_step)}" if verdict.next_step else ""
    where = (finding.file, finding.line) if finding and finding.file else (_file(report, dossier, verdict), 0)
    result: Json = {
        "ruleId": _clean(verdict.gate),
        "level": _level(verdict),
        "message": {"text": _message(f"{text}{next_step}")},
        "partialFingerprints": {
            "check/v1": _fingerprint(verdict.gate, verdict.target, where[0], finding.message if finding else "")
        },
        "properties": {
            "outcome": str(verdict.outcome),
            "code": str(verdict.reason.code),
            "target": _clean(verdict.target),
            "blocks": verdict.blocks,
            "origin": _clean(formatting.origin(verdict.origin)),
        },
    }
    if where[0]:
        result["locations"] = [_location(*where, kernel=finding.kernel if finding else "")]
    if verdict.outcome is Outcome.WAIVED:
        result["suppressions"] = [{"kind": "external", "justification": _message("; ".join(verdict.notes) or "waived")}]
    return result


def _warning(entry: EntryBuild, warning: str) -> Json:
    return {
        "ruleId": WARNING,
        "level": "warning",
        "message": {"text": _message(f"{entry.symbol}: {warning}")},
        "locations": [_location(entry.source, 0, kernel=entry.symbol)],
        "partialFingerprints": {"check/v1": _fingerprint(WARNING, entry.symbol, entry.source, warning)},
    }


def _level(verdict: Verdict) -> str:
    if verdict.blocks:
        return "error"
    return "note" if verdict.deferred or verdict.outcome is Outcome.WAIVED else "warning"


def _file(report: Report, dossier: Dossier, verdict: Verdict) -> str:
    if verdict.scope is Scope.ENTRY:
        entries = (build.entry(verdict.target) for build in report.builds)
        source = next((entry.source for entry in entries if entry is not None), "")
        return source or getattr(dossier.entry(verdict.target), "source", "")
    return dossier.file_of(verdict.subject)


def _location(file: str, line: int, *, kernel: str) -> Json:
    parts = PurePosixPath(formatting.printable(file)).parts
    path = PurePosixPath(*(part for part in parts if part != ".."))  # evidence names no file above the checkout
    is_inside = not path.is_absolute()
    artifact: Json = {"uri": quote(str(path)) if is_inside else f"file://{quote(str(path))}"}
    if is_inside:
        artifact["uriBaseId"] = ROOT
    location: Json = {"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": max(line, 1)}}}
    if kernel:
        location["logicalLocations"] = [{"name": _clean(kernel), "kind": "function"}]
    return location


def _invocation(report: Report, omitted: int) -> Json:
    is_judged = formatting.is_judged(report)
    facts = (formatting.evidence_summary(report), formatting.commits(report))
    notes = [("note", note) for note in (*filter(None, facts), *report.notes)]
    if not is_judged or not report.verdicts:
        notes.insert(0, ("error", report.headline))
    if omitted > 0:
        notes.insert(0, ("warning", f"{omitted} more results are in report.json"))
    shown = [{"level": level, "message": {"text": _message(formatting.plain(text))}} for level, text in notes]
    return {"executionSuccessful": is_judged, "exitCode": report.exit_code, "toolExecutionNotifications": shown}


def _fingerprint(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def _message(text: str) -> str:
    """Clean a message. Viewers read ``[text](target)`` in plain text as a link."""
    return formatting.shorten(formatting.clean_lines(text).replace("](", "] ("), MOST_MESSAGE) or "no message"
