"""The words that every format shares: numbers with units, limits, origins, and text that is safe to show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.verdict import Origin, Outcome, Report, Verdict

SPEEDS = frozenset({Code.FASTER, Code.SAME, Code.SAME_CODE})
"""How a comparison passed: worth saying."""
WHOLE_UNITS = frozenset({"count", "byte"})
COMPARISONS = frozenset({Code.OVER_LIMIT, Code.UNDER_LIMIT})
"""Reds whose message is the comparison of value and limit, which every format shows anyway."""
FEWEST_DIGITS = 4
MOST_DIGITS = 17


def headline(report: Report) -> str:
    """The report's headline without the outcome in front, which every format shows in its own way."""
    return report.headline.removeprefix(f"{report.outcome}: ")


def number(value: float, unit: str, *, digits: int = FEWEST_DIGITS) -> str:
    """``value`` with its unit: whole numbers for counts and bytes, else ``digits`` significant ones."""
    text = f"{int(value)}" if unit in WHOLE_UNITS and value.is_integer() else f"{value:.{digits}g}"
    return f"{text} {unit}"


def reading(verdict: Verdict) -> str:
    """The measured value with its unit, with enough digits to differ from its limit; or why there is none."""
    measured = verdict.reading
    if isinstance(measured, Missing):
        return f"no reading ({measured.code})"
    for digits in range(FEWEST_DIGITS, MOST_DIGITS):
        text = number(measured.value, measured.unit, digits=digits)
        if measured.value == verdict.limit or text != number(verdict.limit, measured.unit, digits=digits):
            return text
    return number(measured.value, measured.unit, digits=MOST_DIGITS)


def limit(verdict: Verdict) -> str:
    """The rule and the limit with its unit, e.g. ``< 0.002 abs``."""
    return f"{verdict.rule} {number(verdict.limit, verdict.unit, digits=6)}"


def origin(source: Origin) -> str:
    """Where the evidence came from, in words: ``live``, ``recorded on ...`` or ``no evidence``."""
    if source.kind == "none":
        return "no evidence"
    if source.kind == "recorded":
        return f"recorded on {source.detail}" if source.detail else "recorded"
    return f"live on {source.detail}" if source.detail else "live"


def origins(verdicts: Iterable[Verdict]) -> list[str]:
    """How many checks were judged on evidence of which origin, one line each."""
    counts: dict[str, int] = {}
    for verdict in verdicts:
        said = printable(origin(verdict.origin))
        counts[said] = counts.get(said, 0) + 1
    return [f"{plural(count, 'check')}: {said}" for said, count in counts.items()]


def label(verdict: Verdict) -> str:
    """The outcome, qualified where it does not count as it reads, or says more: ``FAIL (advisory)``, ``PASS (faster)``."""
    if verdict.deferred:
        return f"{verdict.outcome} (deferred)"
    if is_red(verdict) and not verdict.blocks:
        return f"{verdict.outcome} (advisory)"
    return f"{verdict.outcome} ({verdict.reason.code})" if verdict.reason.code in SPEEDS else str(verdict.outcome)


def speeds(report: Report) -> list[str]:
    """For each gate on a comparison that passed somewhere, how: ``no-slower: 1 faster, 15 same, 1 same-code``."""
    counts: dict[str, Counter[str]] = {}
    for verdict in report.verdicts:
        if verdict.reason.code in SPEEDS:
            counts.setdefault(verdict.gate, Counter())[verdict.reason.code] += 1
    return [f"{gate}: {', '.join(f'{count} {code}' for code, count in sorted(found.items()))}" for gate, found in counts.items()]


def is_red(verdict: Verdict) -> bool:
    """Whether the check neither passed nor is waived."""
    return verdict.outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE}


def closeness(verdict: Verdict) -> float:
    """How much of the limit the reading uses up: 1 is at the limit, 0 far from it; -1 without a reading."""
    measured = verdict.reading
    if not isinstance(measured, Measured):
        return -1.0
    if verdict.rule == ">=":
        return verdict.limit / measured.value if measured.value > 0 else 1.0
    return measured.value / verdict.limit if verdict.limit > 0 else 0.0


def told(finding: Finding) -> str:
    """``message by thread (0,0,0) in block (0,0,0) and 3 more``, as far as that is known."""
    who = f" by thread {finding.thread} in block {finding.block}" if finding.thread else ""
    more = f" and {finding.count - 1} more" if finding.count > 1 else ""
    return f"{finding.message}{who}{more}"


def located(finding: Finding) -> str:
    """``file:line: `` before what ``told`` says, as far as file and line are known."""
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    return f"{place}: {told(finding)}" if finding.file else told(finding)


def plural(count: int, noun: str) -> str:
    """``1 check``, ``2 checks``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def printable(text: str) -> str:
    """``text`` in one line that a terminal shows as it is: control characters and lone surrogates escaped."""
    return _shown(" ".join(text.split()))


def clean_lines(text: str) -> str:
    """``text`` with its lines kept and everything else that cannot be printed escaped."""
    return "\n".join(_shown(line.expandtabs(4)) for line in text.splitlines())


def shorten(text: str, limit_: int) -> str:
    """``text``, cut to ``limit_`` characters with an ellipsis."""
    return text if len(text) <= limit_ else text[: limit_ - 1] + "…"


def _shown(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
