"""compute-sanitizer: its command line, and when a log (``sanitizer_log``) proves a clean kernel.

"0 errors" alone proves nothing: it is also printed if the filter matched nothing, if the tool lost track, or if the target
died. A separate run lists the launches (``launch_list_argv``), because listing counts as errors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from flashcore_ci.adapters import sanitizer_log
from flashcore_ci.adapters.sanitizer_log import Log
from flashcore_ci.model.codes import Code
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured, Missing, Reading

FLOOR = (2026, 4)
"""The first version that follows TMA and mbarriers. Older ones report false races and miss real ones."""
FLOOR_TEXT = ".".join(str(part) for part in FLOOR)
BARRIERS = ("--num-cuda-barriers", "64")
"""The barriers per block that the tool has room for. Our kernels use at most 24. The compiler may undercount them."""
OPTIONS = {
    "memcheck": ("--padding", "4096"),  # bytes after each allocation, so that an overrun does not hit the next one
    "racecheck": BARRIERS,
    "synccheck": BARRIERS,
    "initcheck": ("--initcheck-address-space", "all"),
}
GLOBAL_ONLY = {"initcheck": ("--initcheck-address-space", "global")}
"""For kernels with ordinary loads of what TMA wrote. Version 2026.4 reports every such load of shared memory."""
VARIABLES = {
    "NV_COMPUTE_SANITIZER_BINARY_PATCHING": "1",
    "NV_COMPUTE_SANITIZER_MAX_RACECHECK_HAZARDS": "10000000",
    "NV_COMPUTE_SANITIZER_MAX_RACECHECK_CLUSTER_RECORDS": "10000",
    "NV_COMPUTE_SANITIZER_RACECHECK_INDIRECT_BARRIER_TRACKING": "1",
}
"""The tool's documented switches and sizes, so that the machine's environment cannot make it see less."""
ERROR_EXIT = 86
PRINT_LIMIT = 50
_VERSION = re.compile(r"^Version (\d+(?:\.\d+)+)", re.MULTILINE)
_NUMBERS = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.|$)")


def version_argv(tool: Path) -> tuple[str, ...]:
    """Ask the tool for its version."""
    return (str(tool), "--version")


def parse_version(text: str) -> str:
    """Return the version, e.g. ``2026.4.0.0``, or an empty string."""
    found = _VERSION.search(text)
    return found.group(1) if found else ""


def is_too_old(version: str) -> bool:
    """Tell whether this version is unreadable or below the floor."""
    found = _NUMBERS.match(version)
    return found is None or (int(found[1]), int(found[2])) < FLOOR


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


def read_findings(log: Log, *, returncode: int, version: str, ran: bool) -> Reading:
    """Return the number of findings, or why it is unknown.

    Zero requires a new enough tool that kept track, a target that did not die, exit status 0, finished launches (``ran``), and a
    log of nothing but header and summary.
    """
    count = max(log.total or 0, len(log.findings))
    too_old = f"compute-sanitizer {version or 'of unknown version'} is older than {FLOOR_TEXT}"
    doubts = (
        (is_too_old(version), Code.TOOL_TOO_OLD, too_old),
        (bool(log.lost_track), Code.TOOL_LOST_TRACK, log.lost_track),
        (log.unchecked, Code.NO_LAUNCH_CHECKED, "the target ended before the tool saw any CUDA call"),
        (not count and log.total is None, Code.TOOL_FAILED, f"the log has no summary line, exit status {returncode}"),
        (bool(log.unknown), Code.UNKNOWN_OUTPUT, sanitizer_log.doubt(log).message),
        (not count and bool(log.target_died), Code.CRASH, log.target_died),
        (not count and not ran, Code.CRASH, "the target did not finish its launches"),
        (not count and returncode != 0, Code.TOOL_FAILED, f"the log counts no error, but the exit status is {returncode}"),
        (not count and bool(log.entry), Code.UNKNOWN_OUTPUT, f"the log counts no error, but it has the line: {log.entry}"),
    )
    missing = (Missing(code=code, message=message) for doubt, code, message in doubts if doubt)
    return next(missing, None) or Measured(value=float(count), unit="count")


def why_cut(log: Log) -> Missing | None:
    """Return why a log with findings does not have all of them. Without a summary it ends somewhere, with each kind of finding once."""
    if log.total is not None or not log.findings:
        return None
    return Missing(code=Code.TOOL_FAILED, message=f"the log ends after {len(log.findings)} findings, without a summary")


def _common(tool: Path, check: str, kernels: Sequence[str], log: Path) -> tuple[str, ...]:
    names = [argument for kernel in kernels for argument in ("--kernel-name", f"kne={kernel}")]
    return (
        str(tool), "--tool", check, "--error-exitcode", str(ERROR_EXIT), "--require-cuda-init", "yes",
        "--check-tensor-ops", "yes", "--destroy-on-device-error", "kernel", "--demangle", "no", "--strip-paths", "no",
        "--target-processes", "all", "--log-file", str(log), *names,
    )  # fmt: skip
