"""What must keep a candidate apart that is not trusted."""

from __future__ import annotations

from flashcore_ci.model.evidence import Isolation
from flashcore_ci.model.suite import Kind

MODE = "own process"
NETWORK = "none"
USERS = ("own", "shared, without access to the supervisor")
FILESYSTEM = "allow-list"
CLOCK = "supervisor, slope of N and 2N launches"
"""How a candidate is timed. Its outputs alone need no clock."""
TIMED = frozenset({Kind.TIMING, Kind.COMPARISON})


def shortfall(isolation: Isolation | None, kind: Kind) -> str:
    """Return what this isolation lacks for evidence of this kind, or ""."""
    if isolation is None:
        return "the evidence records no isolation"
    demanded = {"mode": (MODE,), "network": (NETWORK,), "user": USERS, "filesystem": (FILESYSTEM,)}
    demanded |= {"clock": (CLOCK,)} if kind in TIMED else {}
    weak = [name for name, words in demanded.items() if getattr(isolation, name) not in words]
    return "" if not weak else f"{weak[0]} is {getattr(isolation, weak[0])[:80]!r}, and must be {demanded[weak[0]][0]!r}"


def describe(isolation: Isolation) -> str:
    """Return the isolation in one line for a report."""
    words = {name: getattr(isolation, name) for name in ("network", "user", "filesystem", "clock")}
    return f"isolated: {isolation.mode}, {', '.join(f'{name} {word}' for name, word in words.items() if word)}"
