"""Check that a tool reports a planted bug: else its clean log means nothing."""

from __future__ import annotations

from pathlib import Path

from flashcore_ci.adapters import process, sanitizer, sanitizer_log
from flashcore_ci.adapters.sanitizer_log import Log
from flashcore_ci.collect import child
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Missing

SECONDS = 60.0
PERMITTED = frozenset({0, sanitizer.ERROR_EXIT})


def run_control(session: Session, tool: Path, check: str) -> Missing | None:
    """Run ``check`` on a planted bug. Return why it was not reported, or None."""
    log = session.artifact("sanitizer", f"control-{check}.log")
    kernel = f"flashcore_ci_control_{check}"
    result = child.run(
        session.job(
            "control",
            f"control-{check}",
            (),
            seconds=SECONDS,
            options={"check": check},
            variables=sanitizer.VARIABLES,
            permitted=PERMITTED,
            wrap=lambda command: sanitizer.argv(tool, check, kernels=(kernel,), log=log, command=command),
        )
    )
    if result.failure is not None and result.failure.code is Code.INTERRUPTED:
        return result.failure
    status = None if result.completed is None else result.completed.returncode
    wrong = why_unreported(sanitizer_log.parse(process.read_text(log), check), kernel, status)
    return Missing(code=Code.CONTROL_FAILED, message=f"{check} on a planted bug: {wrong}") if wrong else None


def why_unreported(log: Log, kernel: str, status: int | None) -> str:
    """Return why the bug was not reported, or ""."""
    if log.total is None:
        return f"the log has no summary line (exit status {status})"
    if log.lost_track or log.unknown:
        return log.lost_track or log.unknown
    if not log.total or not any(finding.kernel == kernel for finding in log.findings):
        return f"{log.total} findings, none of them in {kernel}"
    if status != sanitizer.ERROR_EXIT:
        return f"it was reported, but the exit status is {status}, not {sanitizer.ERROR_EXIT}"
    return ""
