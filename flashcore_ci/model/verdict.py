"""What the judge says, and the report that everybody reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import BuildEvidence, Finding, Provenance
from flashcore_ci.model.plan import Excluded
from flashcore_ci.model.reading import Reading
from flashcore_ci.model.suite import Kind, Rule, Scope, Severity, Waiver

REPORT_SCHEMA = "report-v1"


class Outcome(StrEnum):
    """The four verdicts."""

    PASS = "PASS"  # noqa: S105 - no password
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    WAIVED = "WAIVED"


class StalePolicy(StrEnum):
    """What unmatched evidence does: block, or wait for a GPU job."""

    BLOCK = "block"
    DEFER = "defer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why: a code, one line for a person, and facts (name, value)."""

    code: Code
    message: str
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where evidence came from: measured now, recorded earlier, or nowhere."""

    kind: Literal["live", "recorded", "none"]
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer to one check. ``blocks``: the change cannot merge."""

    gate: str
    title: str
    evidence: Kind
    target: str
    scope: Scope
    subject: str
    outcome: Outcome
    severity: Severity
    blocks: bool
    deferred: bool
    reason: Reason
    reading: Reading
    rule: Rule
    limit: float
    unit: str
    origin: Origin
    next_step: str = ""
    why: str = ""
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The content of ``report.json`` (schema ``report-v1``): all that any format shows.

    ``judged_commit`` is empty when unknown. The evidence may be of another commit: see ``provenance``.
    """

    suite: str
    tool: str
    as_of: str
    outcome: Outcome
    exit_code: int
    headline: str
    verdicts: tuple[Verdict, ...]
    excluded: tuple[Excluded, ...]
    waivers: tuple[Waiver, ...]
    builds: tuple[BuildEvidence, ...]
    provenance: Provenance | None
    notes: tuple[str, ...] = ()
    judged_commit: str = ""
    schema: Literal["report-v1"] = "report-v1"
