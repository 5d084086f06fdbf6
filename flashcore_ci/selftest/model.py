"""The self-test: what was planted, and who must catch it with which reason."""

from __future__ import annotations

from dataclasses import dataclass

REFUSED = "refused"
"""The reason of evidence that is no evidence: it cannot be read, and the error says why (exit code 4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One defect. In a kernel: ``gate`` must be red on ``target`` for ``reason``, a reason code. In evidence: ``damage`` names it.

    ``gate`` of damaged evidence is the gate that is asked about it; empty where the whole run must be ``REFUSED``. ``slower``
    (%, 0: not that) is work that was planted into ``target``, timed beside the kernel as it is when the noise was recorded.
    """

    name: str
    reason: str
    gate: str = ""
    target: str = ""
    damage: str = ""
    slower: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """``suite`` runs the kernels, ``recording`` is a run of it, and ``clean`` are globs of targets that must be green everywhere.

    ``compared`` is the suite whose gates judge planted slow-downs.
    """

    suite: str
    compared: str
    recording: str
    clean: tuple[str, ...]
    planted: tuple[Planted, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """What became of one defect: ``found`` is the reason that was given, ``seconds`` how long that took, where it was timed."""

    planted: Planted
    found: str
    red: bool
    seconds: float | None

    @property
    def is_caught(self) -> bool:
        """Whether the gate that was meant for it was red, for the reason that was meant."""
        return self.red and self.found == self.planted.reason
