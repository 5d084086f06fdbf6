"""Every attack of the corpus is red, and green without the fix that stops it.

``ATTACK_MEMBERS=1000`` tries so many generated members of each class. The default is small.
"""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

CORPUS = Path(__file__).parent / "corpus"
MEMBERS = int(os.environ.get("ATTACK_MEMBERS", "10"))
MUTATED_MEMBERS = min(MEMBERS, 3)
SEED = 20261122


def _load(file: Path) -> AttackClass:
    spec = importlib.util.spec_from_file_location(f"attack_corpus_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: AttackClass = module.CLASS
    return found


CLASSES = {file.stem: _load(file) for file in sorted(CORPUS.glob("[!_]*.py"))}
WRITTEN = [
    pytest.param(attack, corpus, id=f"{name}: {attack.name}") for name, corpus in CLASSES.items() for attack in corpus.attacks
]


@pytest.mark.parametrize(("attack", "corpus"), WRITTEN)
def test_an_attack_is_red_and_its_mutant_green(
    attack: Attack, corpus: AttackClass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fixed").mkdir()
    assert not attack.attempt(tmp_path / "fixed"), "the attack fooled the gate"
    if attack.mutated:
        corpus.mutant(monkeypatch)
        (tmp_path / "mutant").mkdir()
        assert attack.attempt(tmp_path / "mutant"), "the attack proves nothing: it is red without the fix too"


@pytest.mark.parametrize("name", CLASSES)
def test_generated_members_are_red(name: str, tmp_path: Path) -> None:
    random_numbers = random.Random(f"{name} {SEED}")
    for number in range(MEMBERS):
        member = CLASSES[name].member(random_numbers)
        (tmp_path / str(number)).mkdir()
        assert not member.attempt(tmp_path / str(number)), f"member {number} fooled the gate: {member.name}"


@pytest.mark.parametrize("name", CLASSES)
def test_generated_members_are_green_without_the_fix(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random_numbers = random.Random(f"{name} {SEED}")
    CLASSES[name].mutant(monkeypatch)
    for number in range(MUTATED_MEMBERS):
        member = CLASSES[name].member(random_numbers)
        (tmp_path / str(number)).mkdir()
        assert member.attempt(tmp_path / str(number)) or not member.mutated, f"member {number} proves nothing: {member.name}"
