"""A waiver that covers a crash, a failed control or absent evidence."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from evidence_factories import with_reading
from factories import CHECKS, FINITE, make_waiver
from judging import GOOD, judged, only

from flashcore_ci.judge import waivers
from flashcore_ci.model.codes import PASSING, WAIVABLE, Code
from flashcore_ci.model.evidence import Evidence
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import Kind

MISSING = [code for code in Code if code not in WAIVABLE | PASSING]
EVERY_CODE = tuple(Code)


def _is_waived(evidence: Evidence, codes: tuple[Code, ...], **changes: object) -> bool:
    return not only(judged(evidence, waivers=(make_waiver(codes=codes, **changes),)), "finite").blocks


def _missing(code: Code, codes: tuple[Code, ...], **changes: object) -> Attack:
    evidence = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Missing(code=code, message="none"))
    named = "every code" if codes == EVERY_CODE else ", ".join(codes)
    return Attack(name=f"{code}, waived by {named} {changes or ''}", attempt=lambda _: _is_waived(evidence, codes, **changes))


def _lost_observation(_: Path) -> bool:
    kept = tuple(o for o in GOOD.observations if o.kind is not Kind.CORRECTNESS or o.target != "big")
    return _is_waived(replace(GOOD, observations=kept), EVERY_CODE)


def _whole_observation(code: Code) -> Attack:
    def attempt(_: Path) -> bool:
        missing = Missing(code=code, message="none")
        broken = (replace(o, missing=missing) if o.kind is Kind.CORRECTNESS else o for o in GOOD.observations)
        return _is_waived(replace(GOOD, observations=tuple(broken)), EVERY_CODE)

    return Attack(name=f"the whole observation is {code}", attempt=attempt)


def _stale(_: Path) -> bool:
    other = (replace(o, identity=replace(o.identity, launcher="other")) for o in GOOD.observations)
    return _is_waived(replace(GOOD, observations=tuple(other)), EVERY_CODE)


def _nothing_at_all(_: Path) -> bool:
    report = judged(waivers=tuple(make_waiver(*check.key, codes=EVERY_CODE) for check in CHECKS))
    return report.exit_code == 0


def _other_unit(_: Path) -> bool:
    evidence = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=3.0, unit="byte"))
    return _is_waived(evidence, EVERY_CODE)


def _negative(_: Path) -> bool:
    evidence = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=-1.0, unit="count"))
    return _is_waived(evidence, EVERY_CODE)


def _default_codes(_: Path) -> bool:
    evidence = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Missing(code=Code.HANG, message="none"))
    return not only(judged(evidence, waivers=(make_waiver(),)), "finite").blocks


def _not_named(_: Path) -> bool:
    evidence = with_reading(GOOD, Kind.CORRECTNESS, "big", FINITE.metric, Measured(value=3.0, unit="count"))
    return _is_waived(evidence, (Code.UNDER_LIMIT,))


def member(numbers: random.Random) -> Attack:
    """Pick a missing reading and any codes."""
    code = numbers.choice(MISSING)
    others = tuple(numbers.sample(EVERY_CODE, numbers.randint(0, len(EVERY_CODE))))
    return _missing(code, (code, *others))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cover whatever a waiver names by gate and target, as before."""
    monkeypatch.setattr(waivers, "covers", lambda *_: True)


CLASS = AttackClass(
    name="a waiver covers what has no reading",
    attacks=(
        *(_missing(code, EVERY_CODE) for code in (Code.CRASH, Code.HANG, Code.RAISED, Code.NOT_FINITE, Code.KERNEL_NOT_SEEN)),
        *(
            _missing(code, (code,))
            for code in (Code.CONTROL_FAILED, Code.TOOL_LOST_TRACK, Code.INVALID_REPORT, Code.OUT_OF_MEMORY)
        ),
        _missing(Code.OVER_LIMIT, (Code.OVER_LIMIT,)),
        _missing(Code.DRIFTED, EVERY_CODE),
        _whole_observation(Code.CRASH),
        _whole_observation(Code.TOOL_FAILED),
        Attack(name="no observation", attempt=_lost_observation),
        Attack(name="stale evidence", attempt=_stale),
        Attack(name="no evidence and a waiver for every check", attempt=_nothing_at_all),
        Attack(name="a reading in another unit", attempt=_other_unit),
        Attack(name="an impossible reading", attempt=_negative),
        Attack(name="a hang under the default codes", attempt=_default_codes),
        Attack(name="a code that is not named", attempt=_not_named),
    ),
    member=member,
    mutant=mutant,
)
