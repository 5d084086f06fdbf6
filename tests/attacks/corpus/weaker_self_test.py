"""A self-test that passes although it shows less than the base's."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.selftest import score
from flashcore_ci.selftest.loader import load
from flashcore_ci.selftest.model import Defect, Detection, SelfTest, SelfTestResult
from flashcore_ci.suite.loader import load as load_suite

ROOT = Path(__file__).parents[3]
BASE = load(ROOT / "gates/selftest.toml")
GATES = [gate.id for gate in load_suite(ROOT / "gates/hopper.toml", root=ROOT).gates]


def _passes(head: SelfTest, gates: list[str], missed: frozenset[str] = frozenset()) -> bool:
    detections = tuple(
        Detection(defect=defect, reason=defect.reason, red=defect.name not in missed, seconds=None) for defect in head.defects
    )
    return SelfTestResult(
        detections=tuple(detection for detection in detections if detection.red),
        not_green=(),
        uncontrolled=(),
        undefended=score.gates_without_a_defect(detections, gates),
        dropped=score.dropped_defects(BASE, head),
    ).passed


def _with(*defects: Defect) -> SelfTest:
    return replace(BASE, defects=defects)


def _attack(name: str, head: SelfTest, *extra: str) -> Attack:
    return Attack(name=name, attempt=lambda _: _passes(head, [*GATES, *extra]))


def _changed(name: str, **changes: object) -> Attack:
    head = _with(*(replace(defect, **changes) if defect.name == name else defect for defect in BASE.defects))
    return _attack(f"{name}: {changes}", head)


def member(numbers: random.Random) -> Attack:
    """Drop defects, or put others in their place."""
    gone = set(numbers.sample(range(len(BASE.defects)), numbers.randint(1, 9)))
    kept = [defect for index, defect in enumerate(BASE.defects) if index not in gone]
    others = [replace(defect, name=f"{defect.name} again") for defect in numbers.choices(kept, k=numbers.randint(0, len(gone)))]
    return _attack(f"without {sorted(gone)}", _with(*kept, *others))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look only at the defects that are there, as before."""
    monkeypatch.setattr(score, "gates_without_a_defect", lambda *_: ())
    monkeypatch.setattr(score, "dropped_defects", lambda *_: ())


MUTANTS_ONLY = _with(*(defect for defect in BASE.defects if not defect.tampering))
CLASS = AttackClass(
    name="a self-test that shows less",
    attacks=(
        _attack("no defects", _with()),
        _attack("one defect is gone", _with(*BASE.defects[1:])),
        _attack("the last defect is gone", _with(*BASE.defects[:-1])),
        _attack("only broken evidence is left", _with(*(defect for defect in BASE.defects if defect.tampering))),
        _attack("no broken evidence is left", MUTANTS_ONLY),
        _attack("no slowdown is left", _with(*(defect for defect in BASE.defects if not defect.slowdown))),
        _attack("one defect twice in place of another", _with(*BASE.defects[1:], replace(BASE.defects[1], name="again"))),
        _attack("as many defects, all the same", _with(*(replace(BASE.defects[0], name=d.name) for d in BASE.defects))),
        _changed("trap", reason="raised"),
        _changed("trap", target="sound-n20001"),
        _changed("missing scale", gate="finite"),
        _changed("5 % slower", slowdown=50.0),
        _changed("forged number", tampering="empty-report"),
        _attack("a new gate without a defect", BASE, "new"),
        _attack("a renamed gate", BASE, "max-diff-2"),
        Attack(
            name="a defect that was missed", attempt=lambda _: _passes(BASE, GATES, frozenset({"time depends on the process"}))
        ),
    ),
    member=member,
    mutant=mutant,
)
