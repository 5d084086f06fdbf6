"""The pinned builds that recorded commits are timed with (``anchor.toml`` next to the suite)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flashcore_ci.model.evidence import Identity
from flashcore_ci.model.identity import code_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedCode:
    """The code of one workload: its subject, and the digests of an identity. ``source`` is of the subject's file."""

    subject: str
    machine_code: str
    launcher: str
    binding: str
    source: str

    @property
    def code(self) -> str:
        """The code's identity in the history."""
        return code_digest(self.machine_code, self.launcher, self.binding, self.source)

    def difference(self, identity: Identity) -> str:
        """Name the parts of a build that are not the pinned ones. Head's subject file runs on every side, so it may differ."""
        parts = ("machine_code", "launcher", "binding")
        return ", ".join(part.replace("_", " ") for part in parts if getattr(self, part) != getattr(identity, part))


@dataclass(frozen=True, slots=True, kw_only=True)
class PinLink:
    """log(this anchor / the one before) of one workload, measured together on a class of machines."""

    workload: str
    machine_class: str
    log_ratio: float
    standard_error: float
    df: float
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One anchor: a commit as built by ``compiler`` and run with ``tools`` (name, version). ``since`` is an ISO day."""

    suite: str
    commit: str
    since: str
    reason: str
    owner: str
    compiler: str
    tools: tuple[tuple[str, str], ...] = ()
    codes: Mapping[str, PinnedCode] = field(default_factory=dict)
    links: tuple[PinLink, ...] = ()


def current(pins: tuple[Pin, ...], suite: str) -> Pin | None:
    """Return the newest anchor of a suite."""
    return next((pin for pin in reversed(pins) if pin.suite == suite), None)
