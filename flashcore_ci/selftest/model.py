"""The self-test: defects, and what must become of them."""

from __future__ import annotations

from dataclasses import dataclass

from flashcore_ci.model.verdict import Verdict

REFUSED = "refused"
"""The reason of evidence that cannot be read. The error says why (exit code 4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One defect, and the ``reason`` that must come out of it.

    - A mutant is a broken kernel: ``gate`` must be red on ``target``.
    - A ``tampering`` alters evidence. ``gate`` judges it (empty: the run must be refused).
    - A ``slowdown`` (%) was planted into ``target`` when the noise was recorded.
    """

    name: str
    reason: str
    gate: str = ""
    target: str = ""
    tampering: str = ""
    slowdown: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """The self-test's ``file``: the mutants' ``suite``, its ``recording`` (or ""), globs of ``clean`` targets.

    ``guard`` is the suite whose gates and limits judge the defects.
    """

    suite: str
    guard: str
    recording: str
    clean: tuple[str, ...]
    defects: tuple[Defect, ...]
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """The reason that a defect led to. ``seconds`` is the time to the evidence."""

    defect: Defect
    reason: str
    red: bool
    seconds: float | None

    @property
    def is_right(self) -> bool:
        """Whether the right gate was red for the right reason."""
        return self.red and self.reason == self.defect.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestResult:
    """All detections, sound checks that are not green, and gates that were never green.

    ``undefended`` gates caught no defect, and ``dropped`` defects were in the base.
    """

    detections: tuple[Detection, ...]
    not_green: tuple[Verdict, ...]
    uncontrolled: tuple[str, ...]
    undefended: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every gate caught every defect of it and of the base, and all else is green."""
        wrong = (*self.not_green, *self.uncontrolled, *self.undefended, *self.dropped)
        return all(detection.is_right for detection in self.detections) and not wrong
