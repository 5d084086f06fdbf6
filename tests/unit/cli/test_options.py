from __future__ import annotations

import click
import pytest

from flashcore_ci.cli.options import Moment


@pytest.mark.parametrize(
    ("given", "moment"),
    [
        ("2026-11-21", "2026-11-21T23:59:59Z"),
        ("2026-11-21T08:00:00Z", "2026-11-21T08:00:00Z"),
        ("2026-11-21T08:00:00+02:00", "2026-11-21T06:00:00Z"),
    ],
)
def test_moments_are_utc(given: str, moment: str) -> None:
    assert Moment().convert(given, None, None) == moment


@pytest.mark.parametrize("given", ["", "yesterday", "2026-13-01", "21.11.2026"])
def test_other_moments_are_refused(given: str) -> None:
    with pytest.raises(click.BadParameter, match="not a date or time"):
        Moment().convert(given, None, None)
