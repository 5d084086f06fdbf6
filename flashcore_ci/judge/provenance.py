"""Refuse evidence from another machine, other tools or an impossible time. Pure."""

from __future__ import annotations

import datetime as dt
import re

from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Provenance
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Accepts, Kind, VersionRange

TOOL_OF = {Kind.SANITIZER: "compute-sanitizer", Kind.PROFILE: "ncu"}
"""The tool that such evidence cannot exist without."""
CLOCK_SLACK = dt.timedelta(minutes=5)
"""How far the clocks of two machines may differ."""
DATE_LENGTH = 10
VERSION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9}){0,9})(?:\+.*)?")


def moment_of(text: str) -> dt.datetime:
    """Parse an ISO 8601 text in UTC. A day alone is its end. ValueError for other texts."""
    moment = dt.datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return moment + dt.timedelta(days=1) if len(text) == DATE_LENGTH else moment


def refusal(
    provenance: Provenance, kind: Kind, accepts: Accepts | None, *, as_of: str, max_age_days: float | None
) -> Missing | None:
    """Say why evidence of this ``kind`` does not count, or None. Empty ``as_of``: at any time."""
    age = moment_of(as_of) - moment_of(provenance.collected_at) if as_of else dt.timedelta()
    if age < -CLOCK_SLACK:
        return _missing(Code.FROM_THE_FUTURE, f"it was collected at {provenance.collected_at}, and it is judged as of {as_of}")
    if max_age_days is not None and age > dt.timedelta(days=max_age_days):
        return _missing(Code.TOO_OLD, f"it was collected at {provenance.collected_at}, and the limit is {max_age_days:g} days")
    tools = dict(provenance.tools)
    needed = [tool for tool in (TOOL_OF.get(kind),) if tool]
    ranges = {
        tool: wanted for tool, wanted in (accepts.tools if accepts else ()) if tool not in TOOL_OF.values() or tool in needed
    }
    absent = sorted({*needed, *ranges} - tools.keys())
    if absent or not tools:
        return _missing(Code.NO_TOOLS, f"it does not name its {', '.join(absent) or 'tools'}")
    for tool, wanted in ranges.items():
        if not is_within(tools[tool], wanted):
            return _missing(Code.OTHER_TOOLS, f"it is by {tool} {tools[tool]}, and the suite accepts {describe(wanted)}")
    return _other_machine(provenance, accepts) if accepts else None


def _other_machine(provenance: Provenance, accepts: Accepts) -> Missing | None:
    device = provenance.device
    if device is None or device.name not in accepts.devices:
        name = device.name if device else "no GPU"
        return _missing(Code.OTHER_DEVICE, f"it is of {name}, and the suite accepts {', '.join(accepts.devices)}")
    if not is_within(device.driver, accepts.driver):
        return _missing(Code.OTHER_DRIVER, f"it is by driver {device.driver}, and the suite accepts {describe(accepts.driver)}")
    return None


def is_within(version: str, wanted: VersionRange) -> bool:
    """Whether ``version`` is at least the first and below the other. False if it is not a version."""
    found, first, below = (VERSION.fullmatch(text) for text in (version, wanted.first, wanted.below))
    if found is None or first is None or below is None:
        return False
    numbers = [[int(part) for part in match[1].split(".")] for match in (first, found, below)]
    longest = max(map(len, numbers))
    low, value, high = ([*parts, *[0] * (longest - len(parts))] for parts in numbers)
    return low <= value < high


def describe(wanted: VersionRange) -> str:
    """Say which versions are accepted."""
    return f"{wanted.first} up to, but not, {wanted.below}"


def _missing(code: Code, why: str) -> Missing:
    return Missing(code=code, message=f"the evidence does not count: {why}")
