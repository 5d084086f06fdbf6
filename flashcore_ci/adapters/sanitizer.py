"""compute-sanitizer: its command line, its log, and when it proves a clean kernel.

"0 errors" alone proves nothing: it is also printed if the filter matched nothing, if the tool lost track, or if the target
died. A separate run lists the launches (``launch_list_argv``), because listing counts as errors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured, Missing, Reading

FLOOR = (2026, 4)
"""The first version that follows TMA and mbarriers. Older ones report false races and miss real ones."""
FLOOR_TEXT = ".".join(str(part) for part in FLOOR)
OPTIONS = {
    "memcheck": ("--padding", "4096"),  # bytes after each allocation, so that an overrun does not hit the next one
    "initcheck": ("--initcheck-address-space", "all"),
}
GLOBAL_ONLY = {"initcheck": ("--initcheck-address-space", "global")}
"""For kernels with ordinary loads of what TMA wrote. Version 2026.4 reports every such load of shared memory."""
ERROR_EXIT = 86
PRINT_LIMIT = 50
MAX_FINDINGS = 20
LOST_TRACK = (
    "Internal Sanitizer Error", "Errors might go undetected", "errors may go undetected", "Device not supported",
    "Unable to", "was not able to", "out of memory", "not be tracked",
)  # fmt: skip
API_ERROR = "Program hit"
NOT_INSTRUMENTED = "terminated before first instrumented API call"
TARGET_DIED = ("process didn't terminate successfully", "Target application returned an error")
_COUNT = r"(0|[1-9]\d*)"
_SUMMARY = re.compile(rf"^=+ ERROR SUMMARY: {_COUNT} errors?\s*$", re.MULTILINE)
_RACES = re.compile(rf"(?m)^=+ RACECHECK SUMMARY: {_COUNT} hazards? displayed \({_COUNT} errors?, {_COUNT} warnings?\)\s*$")
_UNPRINTED = re.compile(r"^=+ ERROR SUMMARY: \d+ errors? (?:was|were) not printed\b")
_ANY_SUMMARY = re.compile(r"^=+ [A-Z ]*SUMMARY\b.*$", re.MULTILINE)
_KNOWN_SUMMARIES = (_SUMMARY, _RACES, _UNPRINTED)
_PREFIX = re.compile(r"^=+ ?", re.MULTILINE)
_LOCATION = re.compile(r"\bat (?P<kernel>[^\s+(]+)[^\n]*?\+0x[0-9a-f]+(?: in (?P<file>[^\n:]+):(?P<line>\d+))?")
_FRAME = re.compile(r"^ *Device Frame: (?P<kernel>[^\s+(]+)[^\n]*?\+0x", re.MULTILINE)
_THREAD = re.compile(r"by thread (\(\d+,\d+,\d+\)) in block (\(\d+,\d+,\d+\))")
_VERSION = re.compile(r"^Version (\d+(?:\.\d+)+)", re.MULTILINE)
_LAUNCH = re.compile(r"(?m)^Launch #\d+(?P<filtered> \(filtered[^\n]*\))?\n +Kernel: (?P<kernel>\S+)\n +Grid: +\((?P<width>\d+),")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One log. An unknown summary counts as ``lost_track``: its ``total`` might not be zero."""

    total: int | None
    findings: tuple[Finding, ...]
    lost_track: str
    target_died: str
    unchecked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch: kernel, width of the grid, whether it was checked."""

    kernel: str
    width: int
    checked: bool


def version_argv(tool: Path) -> tuple[str, ...]:
    """Ask the tool for its version."""
    return (str(tool), "--version")


def parse_version(text: str) -> str:
    """Return the version, e.g. ``2026.4.0.0``, or an empty string."""
    found = _VERSION.search(text)
    return found.group(1) if found else ""


def is_too_old(version: str) -> bool:
    """Tell whether this version is unreadable or below the floor."""
    numbers = tuple(int(part) for part in version.split(".")[:2]) if version else ()
    return not numbers >= FLOOR


def argv(
    tool: Path, check: str, *, kernels: Sequence[str], log: Path, command: Sequence[str | Path], bulk: bool = False
) -> tuple[str, ...]:
    """Run ``command`` under ``check``. ``kernels`` are whole mangled names (none: all). A kernel that faults is ended.

    ``bulk``: initcheck cannot follow what TMA wrote to shared memory.
    """
    if check not in SANITIZER_TOOLS:
        raise ValueError(f"compute-sanitizer has no check called {check}")
    options = (*(GLOBAL_ONLY[check] if bulk else OPTIONS.get(check, ())), "--show-backtrace", "device")
    return (*_common(tool, check, kernels, log), *options, "--print-limit", str(PRINT_LIMIT), *map(str, command))


def launch_list_argv(tool: Path, *, kernels: Sequence[str], log: Path, command: Sequence[str | Path]) -> tuple[str, ...]:
    """List every launch, and whether the filter checks it. Its summary means nothing."""
    listing = ("--dump-kernel-launches", "--show-backtrace", "no", "--print-limit", "0")
    return (*_common(tool, "memcheck", kernels, log), *listing, *map(str, command))


def parse(text: str, check: str) -> Log:
    """Parse a log of this check."""
    summaries = [int(count) for count in _SUMMARY.findall(text)]
    races = [max(int(shown), int(errors) + int(warnings)) for shown, errors, warnings in _RACES.findall(text)]
    due = races if check == "racecheck" else summaries
    lines = _PREFIX.sub("", text).splitlines()
    unknown = (line for line in _ANY_SUMMARY.findall(text) if not any(pattern.match(line) for pattern in _KNOWN_SUMMARIES))
    return Log(
        total=max(*races, *summaries, 0, 0) if due else None,
        findings=_findings(text, check),
        lost_track=next((line.strip() for line in lines if any(word in line for word in LOST_TRACK)), "") or next(unknown, ""),
        target_died=next((line.strip() for line in lines if any(word in line for word in TARGET_DIED)), ""),
        unchecked=NOT_INSTRUMENTED in text,
    )


def parse_launches(text: str) -> tuple[Launch, ...]:
    """Parse the launch list, in order."""
    found = _LAUNCH.finditer(_PREFIX.sub("", text))
    return tuple(Launch(kernel=one["kernel"], width=int(one["width"]), checked=one["filtered"] is None) for one in found)


def read_findings(log: Log, *, returncode: int, version: str, ran: bool) -> Reading:
    """Return the number of findings, or why it is unknown.

    Zero requires a new enough tool that kept track, a target that did not die, exit status 0, and finished launches (``ran``).
    """
    count = max(log.total or 0, len(log.findings))
    too_old = f"compute-sanitizer {version or 'of unknown version'} is older than {FLOOR_TEXT}"
    doubts = (
        (is_too_old(version), Code.TOOL_TOO_OLD, too_old),
        (bool(log.lost_track), Code.TOOL_LOST_TRACK, log.lost_track),
        (log.unchecked, Code.NO_LAUNCH_CHECKED, "the target ended before the tool saw any CUDA call"),
        (not count and log.total is None, Code.TOOL_FAILED, f"the log has no summary line, exit status {returncode}"),
        (not count and bool(log.target_died), Code.CRASH, log.target_died),
        (not count and not ran, Code.CRASH, "the target did not finish its launches"),
        (not count and returncode != 0, Code.TOOL_FAILED, f"the log counts no error, but the exit status is {returncode}"),
    )
    missing = (Missing(code=code, message=message) for doubt, code, message in doubts if doubt)
    return next(missing, None) or Measured(value=float(count), unit="count")


def _common(tool: Path, check: str, kernels: Sequence[str], log: Path) -> tuple[str, ...]:
    names = [argument for kernel in kernels for argument in ("--kernel-name", f"kne={kernel}")]
    return (
        str(tool), "--tool", check, "--error-exitcode", str(ERROR_EXIT), "--require-cuda-init", "yes",
        "--check-tensor-ops", "yes", "--destroy-on-device-error", "kernel", "--demangle", "no", "--strip-paths", "no",
        "--target-processes", "all", "--log-file", str(log), *names,
    )  # fmt: skip


def _findings(text: str, check: str) -> tuple[Finding, ...]:
    """Return one finding per place and message."""
    findings: dict[tuple[str, str, str, int], Finding] = {}
    for paragraph in re.split(r"^\s*$", _PREFIX.sub("", text), flags=re.MULTILINE):
        body = "\n".join(line for line in paragraph.strip().splitlines() if line != "COMPUTE-SANITIZER")
        found = _LOCATION.search(body)
        if _LAUNCH.search(f"{body}\n") or (found is None and API_ERROR not in body):
            continue
        kernel, file, line = (found["kernel"], found["file"] or "", int(found["line"] or 0)) if found else ("", "", 0)
        kernel = (_FRAME.findall(body) or [kernel])[-1]  # the last function of a call chain is the entry function
        key = (_headline(body), kernel, file, line)
        thread, block = thread_match.groups() if (thread_match := _THREAD.search(body)) else ("", "")
        first = Finding(tool=check, message=key[0], kernel=kernel, file=file, line=line, thread=thread, block=block, count=0)
        findings[key] = replace(findings.get(key, first), count=findings.get(key, first).count + 1)
    return tuple(findings.values())[:MAX_FINDINGS]


def _headline(body: str) -> str:
    lines = [line.strip() for line in body.splitlines()]
    return " ".join(lines[:2]) if "Race reported" in lines[0] else lines[0]
