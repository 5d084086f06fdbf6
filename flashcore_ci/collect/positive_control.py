"""Does the tool see anything at all? A planted bug under each check, on this GPU, in this run."""

from __future__ import annotations

from pathlib import Path

from flashcore_ci.adapters import process, sanitizer
from flashcore_ci.adapters.sanitizer import Log
from flashcore_ci.collect import child
from flashcore_ci.collect.machine import Machine, shared
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Missing

SECONDS = 60.0
PERMITTED = frozenset({0, sanitizer.ERROR_EXIT})


def failed(machine: Machine, tool: Path, check: str) -> Missing | None:
    """Why a clean verdict of this check means nothing: the control's bug went unreported. None when it was reported."""
    log = shared(machine.session.context.artifact("sanitizer", f"control-{check}.log"))
    kernel = f"flashcore_ci_control_{check}"
    ended = child.run(
        machine.order(
            "control",
            f"control-{check}",
            (),
            seconds=SECONDS,
            options={"check": check},
            permitted=PERMITTED,
            wrap=lambda command: sanitizer.argv(tool, check, kernels=(kernel,), log=log, command=command),
        )
    )
    if ended.fault is not None and ended.fault.code is Code.INTERRUPTED:
        return ended.fault
    status = None if ended.completed is None else ended.completed.returncode
    wrong = unreported(sanitizer.parse(process.read_text(log), check), kernel, status)
    return Missing(code=Code.CONTROL_FAILED, message=f"{check} on a planted bug: {wrong}") if wrong else None


def unreported(log: Log, kernel: str, status: int | None) -> str:
    """What is amiss in what the tool said of its control, in one line; empty when it reported the bug where it is."""
    if log.total is None:
        return f"the log has no summary line; exit status {status}"
    if log.lost_track:
        return log.lost_track
    if not log.total or not any(finding.kernel == kernel for finding in log.findings):
        return f"{log.total} findings, none of them in {kernel}"
    if status != sanitizer.ERROR_EXIT:
        return f"it was reported, but the exit status is {status}, not {sanitizer.ERROR_EXIT}"
    return ""
