"""Stopping a run: every child process ends, and what was measured until then is judged."""

from __future__ import annotations

from flashcore_ci.adapters import process


def stop(*, kill: bool = False) -> None:
    """End every child process, at once if ``kill``. No new one starts."""
    process.stop_all(kill=kill)


def is_stopping() -> bool:
    """Tell whether the run was asked to stop."""
    return process.stopping()
