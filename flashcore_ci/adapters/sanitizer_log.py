"""The logs of compute-sanitizer, line by line.

A clean log is an allow-list: header and summary. Every other line is part of a finding, of a launch, of the target's death, or it is
unknown. ``tests/recordings/sanitizer/sentences.tsv`` classifies what the pinned version can say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.reading import Missing

MAX_FINDINGS = 20
MAX_LINE = 300
HARMLESS = frozenset({"header", "blank", "total", "races", "unprinted"})
"""The kinds of line that a clean log consists of."""
HEADER = "COMPUTE-SANITIZER"
LOST_TRACK = (
    "Internal Sanitizer", "undetected", "might be incorrect", "might be incomplete", "have been dropped", "were skipped",
    "Not all records", "Maximum number of hazards", "Device not supported", "supported by the selected tool", "are disabled",
    "will be disabled", "unsupported driver", "Unable to", "unable to", "was not able to", "out of memory", "not be tracked", "didn't track",
    "False positives", "possible deadlock", "Internal error", "encountered an error", "Inconsistent record", "Unknown record",
    "Record was suppressed", "max hazards number", "failed to handle", "injection library", "failed to initialize",
)  # fmt: skip
"""Parts of the tool's sentences that mean that it may have missed errors."""
API_ERRORS = ("Program hit ", "Host API memory access error at host access to ")
"""Findings without a kernel: a call that failed, and a copy that reads what was never written."""
NOT_INSTRUMENTED = ("terminated before first instrumented API call", "terminated before first instrumented kernel launch")
TARGET_DIED = ("process didn't terminate successfully", "Target application returned an error")
_STOPPED = re.compile(
    rf"(?:Error: )?(?:Target application |Error: )?(?:{'|'.join(map(re.escape, (*NOT_INSTRUMENTED, *TARGET_DIED)))})"
)
_COUNT = r"(0|[1-9]\d{0,11})"
_ERRORS = r"(?:(1) error|(0|[2-9]|[1-9]\d{1,11}) errors)"
SUMMARY = " SUMMARY: "
_SUMMARY = re.compile(rf"ERROR SUMMARY: {_ERRORS}")
_RACES = re.compile(rf"RACECHECK SUMMARY: {_COUNT} hazards? displayed \({_COUNT} errors?, {_COUNT} warnings?\)")
_UNPRINTED = re.compile(rf"ERROR SUMMARY: {_COUNT} errors? (?:was|were) not printed\. Use --print-limit option to adjust .*")
_SUMMARIES = {"total": _SUMMARY, "races": _RACES, "unprinted": _UNPRINTED}
_PREFIX = re.compile(r"^=+ ?", re.MULTILINE)
_LINE = re.compile(r"=========(?: (.*))?")
_LOCATION = re.compile(r"\bat (?P<kernel>[^\s+(]+)[^\n]*?\+0x[0-9a-f]+(?: in (?P<file>[^\n:]+):(?P<line>\d{1,9}))?")
_PLACE, _OFFSET = re.compile(r"\bat [^\s+(]"), re.compile(r"\+0x[0-9a-f]")
_FRAME = re.compile(r"^ *Device Frame: (?P<kernel>[^\s+(]+)[^\n]*?\+0x", re.MULTILINE)
_THREAD = re.compile(r"by thread (\(\d+,\d+,\d+\)) in block (\(\d+,\d+,\d+\))")
_LAUNCH_LINE = re.compile(r"Launch #(\d{1,11})(?: \(filtered[^\n]*\))?")
_LAUNCH = re.compile(
    r"(?m)^Launch #\d{1,11}(?P<filtered> \(filtered[^\n]*\))?\n +Kernel: (?P<kernel>\S+)\n +Grid: +\((?P<width>\d{1,10}),"
)
MARKS = ("flashcore_ci_begin", "flashcore_ci_end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One log. ``unknown`` is its first line that the grammar lacks, ``entry`` its first beyond header and summary."""

    total: int | None
    findings: tuple[Finding, ...]
    lost_track: str
    unknown: str
    entry: str
    target_died: str
    unchecked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch: kernel, width of the grid, whether it was checked."""

    kernel: str
    width: int
    checked: bool


def parse(text: str, check: str) -> Log:
    """Parse a log of this check."""
    return _parse(text, check)[0]


def _parse(text: str, check: str) -> tuple[Log, list[Finding]]:
    """Return the log with as many findings as are kept, and all of them."""
    lines = _PREFIX.sub("", text).splitlines()
    ends = [line for line in lines if SUMMARY in line]
    counts = {name: [_numbers(found) for line in ends if (found := form.fullmatch(line))] for name, form in _SUMMARIES.items()}
    summaries, races = [count for (count,) in counts["total"]], [max(shown, e + w) for shown, e, w in counts["races"]]
    entry, unknown = _first_beyond(text, check)
    findings = list(_findings(text, check).values())
    due = races if check == "racecheck" else summaries
    log = Log(
        total=max(*races, *summaries, 0, 0) if due else None,
        findings=tuple(findings[:MAX_FINDINGS]),
        lost_track=_first_with(LOST_TRACK, lines),
        unknown=unknown,
        entry=entry,
        target_died=_first_with(TARGET_DIED, lines),
        unchecked=bool(_first_with(NOT_INSTRUMENTED, lines)),
    )
    return log, findings


def parse_launches(text: str) -> tuple[Launch, ...]:
    """Parse the launch list, in order."""
    found = _LAUNCH.finditer(_PREFIX.sub("", text))
    return tuple(Launch(kernel=one["kernel"], width=int(one["width"]), checked=one["filtered"] is None) for one in found)


def read_launches(text: str) -> tuple[Launch, ...] | Missing:
    """Parse a whole launch list, or say why it cannot be trusted. The tool counts every launch as an error."""
    launches, (log, findings) = parse_launches(text), _parse(text, "memcheck")
    numbers = [int(number) for number in re.findall(r"(?m)^Launch #(\d{1,11})", _PREFIX.sub("", text))]
    printed = len(numbers) + sum(finding.count for finding in findings)
    if log.unknown or log.lost_track:
        return doubt(log, "the list of launches")
    if log.total is None:
        return Missing(code=Code.NO_LAUNCH_CHECKED, message="the tool's list of launches has no summary: it was cut")
    if numbers != [*range(1, len(launches) + 1)] or printed != log.total:
        message = f"the tool's list of launches counts {log.total} entries, and {printed} are there"
        return Missing(code=Code.NO_LAUNCH_CHECKED, message=message)
    return launches


def marks_of(launches: Sequence[Launch] | Missing) -> list[tuple[int, Launch]]:
    """Return the places of all marks, to look for them once and not for each workload."""
    return [] if isinstance(launches, Missing) else [(at, launch) for at, launch in enumerate(launches) if launch.kernel in MARKS]


def doubt(log: Log, name: str = "the log") -> Missing:
    """Return the line that makes this log worthless."""
    if log.lost_track:
        return Missing(code=Code.TOOL_LOST_TRACK, message=log.lost_track)
    return Missing(code=Code.UNKNOWN_OUTPUT, message=f"{name} has a line that is not known to be harmless: {log.unknown}")


def _numbers(found: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(number) for number in found.groups() if number is not None)


def _first_with(words: tuple[str, ...], lines: list[str]) -> str:
    text = "\n".join(lines)
    present = [word for word in words if word in text]
    return next((_shown(line.strip()) for line in lines if any(word in line for word in present)), "") if present else ""


def _shown(line: str) -> str:
    """Return a line for a message: short, and without control characters."""
    return "".join(character if character.isprintable() else "?" for character in line[:MAX_LINE])


def _locate(text: str) -> re.Match[str] | None:
    """Find the first place. Lines are tested first, because the search alone takes quadratic time on hostile ones."""
    for line in text.split("\n"):
        place, offsets = _PLACE.search(line), [found.start() for found in _OFFSET.finditer(line)]
        if place is not None and offsets and place.start() < offsets[-1]:
            return _LOCATION.search(line)
    return None


def _first_beyond(text: str, check: str) -> tuple[str, str]:
    """Return the first line beyond header and summary, and the first unknown one."""
    first = ""
    for kind, line in _read_lines(text, check):
        if kind not in HARMLESS:
            first = first or _shown(line) or "an empty line"
            if kind == "unknown":
                return first, _shown(line) or "an empty line"
    return first, ""


def _read_lines(text: str, check: str) -> Iterator[tuple[str, str]]:
    """Yield each line with its kind, ``unknown`` if the grammar of this check's log does not have it here."""
    *lines, cut = text.split("\n")
    seen: set[str] = set()
    inside = False
    for index, (line, following) in enumerate(pairwise([*lines, ""])):
        found = _LINE.fullmatch(line)
        kind = _kind(found[1] or "", following) if found and line.isprintable() else "unknown"
        is_due = (
            kind in {"header", "blank"}
            or (kind == "detail" and inside)
            or (kind == "entry" and seen.isdisjoint(_SUMMARIES))
            or (kind == "total" and "total" not in seen)
            or (kind == "races" and check == "racecheck" and "races" not in seen)
            or (kind == "unprinted" and "total" in seen and "unprinted" not in seen)
        )
        is_in_place = is_due and (kind == "header") == (index == 0)
        yield (kind if is_in_place else "unknown"), line
        inside = kind == "entry" or (inside and kind == "detail")
        seen.add(kind)
    if cut:
        yield "unknown", f"(cut) {cut}"


def _kind(content: str, following: str) -> str:
    """Name what this line is: ``entry`` starts a finding, a launch, or how the target ended."""
    if not content or content.startswith("  "):
        return "detail" if content else "blank"
    if summary := next((name for name, form in _SUMMARIES.items() if SUMMARY in content and form.fullmatch(content)), ""):
        return summary
    if content == HEADER:
        return "header"
    is_entry = (
        _LAUNCH_LINE.fullmatch(content) or content.startswith(API_ERRORS) or _STOPPED.fullmatch(content) or _locate(content)
    )
    next_is_place = following.startswith("=========     at ") and _locate(following) is not None
    return "entry" if is_entry or next_is_place else "unknown"


def _findings(text: str, check: str) -> dict[tuple[str, str, str, int], Finding]:
    """Return one finding per place and message."""
    findings: dict[tuple[str, str, str, int], Finding] = {}
    for has_text, lines in groupby(_PREFIX.sub("", text).splitlines(), key=lambda line: bool(line.strip())):
        body = "\n".join(line for line in lines if line != HEADER).strip()
        if not has_text or not body:
            continue
        if _LAUNCH.search(f"{body}\n") or ((found := _locate(body)) is None and not any(error in body for error in API_ERRORS)):
            continue
        kernel, file, line = (found["kernel"], found["file"] or "", int(found["line"] or 0)) if found else ("", "", 0)
        kernel = (_FRAME.findall(body) or [kernel])[-1]  # the last function of a call chain is the entry function
        key = (_headline(body), kernel, file, line)
        thread, block = thread_match.groups() if (thread_match := _THREAD.search(body)) else ("", "")
        first = Finding(tool=check, message=key[0], kernel=kernel, file=file, line=line, thread=thread, block=block, count=0)
        findings[key] = replace(findings.get(key, first), count=findings.get(key, first).count + 1)
    return findings


def _headline(body: str) -> str:
    lines = [line.strip() for line in body.splitlines()]
    return " ".join(lines[:2]) if "Race reported" in lines[0] else lines[0]
