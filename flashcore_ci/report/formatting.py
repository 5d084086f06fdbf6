"""Format numbers, limits, origins and untrusted text for every report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import STATIC_KINDS, Kind, Rule
from flashcore_ci.model.verdict import Origin, Outcome, Report, Verdict

SPEEDS = frozenset({Code.FASTER, Code.SAME, Code.SAME_CODE})
"""Codes that say how a comparison passed."""
LIMIT_CODES = frozenset({Code.OVER_LIMIT, Code.UNDER_LIMIT})
"""Codes whose message repeats value and limit, which every format shows anyway."""
VERDICT_EXITS = frozenset({ExitCode.PASSED, ExitCode.GATE_FAILED, ExitCode.INCONCLUSIVE})
WHOLE_UNITS = frozenset({"count", "byte"})
SUFFIXES = {"count": "", "abs": "", "ratio": "", "C": " °C", "Mcycle": " Mcycles"}
CONDITIONS = {Rule.LESS: "below", Rule.AT_MOST: "at most", Rule.AT_LEAST: "at least", Rule.EQUAL: "exactly"}
NOUNS = {"local-memory": "instruction", "instructions": "violation", "finite": "bad value", "repeatable": "differing run"}
"""What the shipped gates count, where the kind of evidence does not say it."""
KIND_NOUNS = {Kind.ALERTS: "alert", Kind.BAR: "change", Kind.BUILD: "error", Kind.SANITIZER: "finding"}
CODE_SPAN = re.compile(r"`((?! )[^`|\\<>&@\n]+(?<! ))`")
"""Code in our texts. What Markdown or HTML could read as markup is excluded: it stays escaped text."""
FEWEST_DIGITS = 4
FEWEST_DIGITS_OF_ERRORS = 2
MOST_DIGITS = 17
PLAIN_ERRORS = (0.01, 10_000.0)
"""Errors in this range are written without an exponent."""
SHORT_COMMIT = 7
REMEMBERED = 4096
"""Texts that a report repeats: names, limits and origins."""


def headline(report: Report) -> str:
    """Return the headline without the outcome."""
    return report.headline.removeprefix(f"{report.outcome}: ")


def is_judged(report: Report) -> bool:
    """Tell whether the run reached a verdict."""
    return report.exit_code in VERDICT_EXITS


def number(value: float, unit: str, *, digits: int = FEWEST_DIGITS) -> str:
    """Format ``value`` as people say it: ``3``, ``16 bytes``, ``9.8e-4``, ``83.43 %``."""
    if unit in WHOLE_UNITS and value.is_integer():
        whole = f"{int(value):,}"
        return whole if unit == "count" else f"{whole} byte{'' if value == 1 else 's'}"
    text = _error(value, digits) if unit == "abs" else f"{value:.{digits}g}"
    return text + SUFFIXES.get(unit, f" {printable(unit)}")


def _error(value: float, digits: int) -> str:
    if value == 0 or PLAIN_ERRORS[0] <= abs(value) < PLAIN_ERRORS[1]:
        return f"{value:.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def reading(verdict: Verdict) -> str:
    """Format the value unlike its limit, or why it is missing."""
    measured = verdict.reading
    if isinstance(measured, Missing):
        return f"no reading: {measured.code}"
    noun = KIND_NOUNS.get(verdict.evidence) or NOUNS.get(verdict.gate)
    if noun and verdict.rule is not Rule.AT_LEAST and measured.unit == "count" and measured.value.is_integer():
        return f"{int(measured.value):,} {noun if measured.value == 1 else f'{noun}s'}"
    fewest = FEWEST_DIGITS_OF_ERRORS if measured.unit == "abs" else FEWEST_DIGITS
    for digits in range(fewest, MOST_DIGITS):
        text = number(measured.value, measured.unit, digits=digits)
        if measured.value == verdict.limit or text != number(verdict.limit, measured.unit, digits=digits):
            return text
    return number(measured.value, measured.unit, digits=MOST_DIGITS)


def condition(rule: Rule, value: float, unit: str) -> str:
    """Say what a value must be: ``below 2e-3``, ``at least 70 %``, ``exactly 0``."""
    return f"{CONDITIONS[rule]} {'0' if value == 0 and unit in WHOLE_UNITS else number(value, unit, digits=6)}"


def limit(verdict: Verdict) -> str:
    """Format the limit: ``2e-3``, ``minimum 70 %``, ``must be exactly 4``."""
    text = condition(verdict.rule, verdict.limit, verdict.unit)
    measured = verdict.reading
    is_equal = isinstance(measured, Measured) and measured.value == verdict.limit
    if (verdict.rule is Rule.EQUAL and verdict.limit != 0) or (verdict.rule is Rule.LESS and is_equal):
        return f"must be {text}"
    short = text.removeprefix(f"{CONDITIONS[verdict.rule]} ")
    return f"minimum {short}" if verdict.rule is Rule.AT_LEAST else short


def with_limit(verdict: Verdict) -> str:
    """Format value and limit: ``3 findings (limit 0)``, ``51.4 % (minimum 70 %)``."""
    text = limit(verdict)
    return f"{reading(verdict)} ({text if text.startswith(('minimum ', 'must be ')) else f'limit {text}'})"


def closeness(verdict: Verdict) -> float:
    """Return the used share of the limit, or -1."""
    measured = verdict.reading
    if not isinstance(measured, Measured):
        return -1.0
    if verdict.rule == ">=":
        return verdict.limit / measured.value if measured.value > 0 else 1.0
    return measured.value / verdict.limit if verdict.limit > 0 else 0.0


def origin(source: Origin) -> str:
    """Return ``live on ...``, ``recorded on ...`` or ``no evidence``."""
    if source.kind == "none":
        return "no evidence"
    return f"{source.kind} on {source.detail}" if source.detail else source.kind


def origins(verdicts: Iterable[Verdict]) -> list[str]:
    """Count the checks by the origin of their evidence."""
    counts = Counter(printable(origin(verdict.origin)) for verdict in verdicts)
    return [f"{plural(count, 'check')}: {text}" for text, count in counts.items()]


def evidence_summary(report: Report) -> str:
    """Say how many checks rest on recordings and how many are live."""
    total, counts = len(report.verdicts), Counter(verdict.origin.kind for verdict in report.verdicts)
    if not total:
        return ""
    live = f"{counts['live']:,} live"
    is_measured_here = any(v.origin.kind == "live" and v.evidence not in STATIC_KINDS for v in report.verdicts)
    places = _places(report, "live" if is_measured_here and not counts["recorded"] else "recorded")
    if counts["live"] == total:
        subject = "The only check was" if total == 1 else f"All {total:,} checks were"
        return f"{subject} judged live{f' ({places[0]})' if places else ''}."
    nowhere = f"{counts['none']:,} without evidence" if counts["none"] else ""
    if counts["recorded"]:
        many = "recordings" if len(places) < 2 else f"{len(places)} recordings"  # noqa: PLR2004 - one is not worth counting
        where = f" ({'; '.join(places)})" if places else ""
        first = f"{counts['recorded']:,} of {total:,} checks were judged on {many}{where}"
    else:
        first, nowhere = f"{counts['none']:,} of {total:,} checks have no evidence", ""
    parts = (first, live if counts["live"] else "", nowhere)
    here = "No GPU here: " if counts["live"] and not is_measured_here else ""
    return f"{here}{', '.join(filter(None, parts))}."


def _places(report: Report, kind: str) -> list[str]:
    measured = (v for v in report.verdicts if v.origin.kind == kind and (kind == "recorded" or v.evidence not in STATIC_KINDS))
    details = dict.fromkeys(printable(v.origin.detail) for v in measured)
    kept = (", ".join(p for p in d.removeprefix("NVIDIA ").split(", ") if not p.startswith("driver ")) for d in details)
    return [text for text in dict.fromkeys(kept) if text]


def short_commit(commit: str) -> str:
    """Return the first digits of ``commit``, or ``unknown``."""
    return printable(commit)[:SHORT_COMMIT] or "unknown"


def commits(report: Report) -> str:
    """Name the judged commit and that of the evidence."""
    judged, found = short_commit(report.judged_commit), report.provenance
    if found is None:
        return f"judged commit {judged}"
    is_same = bool(report.judged_commit) and found.commit == report.judged_commit
    evidence = "the same commit" if is_same else f"commit {short_commit(found.commit)}"
    return f"judged commit {judged}, evidence of {evidence}{' with uncommitted changes' if found.dirty else ''}"


def label(verdict: Verdict) -> str:
    """Return the outcome, qualified if needed: ``FAIL (advisory)``, ``PASS (faster)``."""
    if verdict.deferred:
        return f"{verdict.outcome} (deferred)"
    if is_advisory(verdict):
        return f"{verdict.outcome} (advisory)"
    return f"{verdict.outcome} ({verdict.reason.code})" if verdict.reason.code in SPEEDS else str(verdict.outcome)


def speeds(report: Report) -> list[str]:
    """Count how comparisons passed: ``no-slower: 1 faster, 15 same, 1 same-code``."""
    counts: dict[str, Counter[str]] = {}
    for verdict in report.verdicts:
        if verdict.reason.code in SPEEDS:
            counts.setdefault(verdict.gate, Counter())[verdict.reason.code] += 1
    return [f"{gate}: {', '.join(f'{count} {code}' for code, count in sorted(found.items()))}" for gate, found in counts.items()]


def is_red(verdict: Verdict) -> bool:
    """Tell whether the check neither passed nor is waived."""
    return verdict.outcome is Outcome.FAIL or verdict.outcome is Outcome.INCONCLUSIVE


def is_advisory(verdict: Verdict) -> bool:
    """Tell whether it is red, but neither blocks nor is deferred."""
    return is_red(verdict) and not verdict.blocks and not verdict.deferred


def detail(verdict: Verdict) -> str:
    """Say what happened, or why the limit exists."""
    return (verdict.reason.code in LIMIT_CODES and verdict.why) or verdict.reason.message


def describe_finding(finding: Finding) -> str:
    """Return ``message by thread (0,0,0) in block (0,0,0) and 3 more``."""
    thread = f" by thread {finding.thread} in block {finding.block}" if finding.thread else ""
    more = f" and {finding.count - 1} more" if finding.count > 1 else ""
    return f"{finding.message}{thread}{more}"


def locate_finding(finding: Finding) -> str:
    """Put ``file:line: `` before the description."""
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    return f"{place}: {describe_finding(finding)}" if finding.file else describe_finding(finding)


def plural(count: int, noun: str) -> str:
    """Return ``1 check``, ``2 checks``, ``1,269 checks``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def plain(text: str) -> str:
    """Return ``text`` in one printable line, code without backticks."""
    return CODE_SPAN.sub(r"\1", printable(text))


@lru_cache(REMEMBERED)
def printable(text: str) -> str:
    """Escape control characters and lone surrogates, in one line."""
    return _escape_unprintable(" ".join(text.split()))


@lru_cache(REMEMBERED)
def clean_lines(text: str) -> str:
    """Do as ``printable`` does, but keep the lines."""
    return "\n".join(_escape_unprintable(line.expandtabs(4)) for line in text.splitlines())


def shorten(text: str, most: int) -> str:
    """Cut ``text`` to ``most`` characters, with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _escape_unprintable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
