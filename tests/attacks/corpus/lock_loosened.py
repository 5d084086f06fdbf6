"""A lock file that lets pip install what nobody reviewed."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from scripts import GITHUB, script

locks = script("check_locks")
LOCK = (GITHUB / "locks/required.lock").read_text(encoding="utf-8")
HASH = "--hash=sha256:" + "0" * 64


def _attack(name: str, change: Callable[[str], str]) -> Attack:
    def attempt(folder: Path) -> bool:
        (folder / ".github").mkdir()
        shutil.copytree(GITHUB / "locks", folder / ".github/locks")
        shutil.copy(GITHUB.parent / "pyproject.toml", folder)
        (folder / ".github/locks/required.lock").write_text(change(LOCK), encoding="utf-8")
        return list(locks.problems(folder)) == []

    return Attack(name=name, attempt=attempt)


def _line(text: str) -> Callable[[str], str]:
    return lambda lock: f"{lock}{text}\n"


def _pin(name: str, to: str) -> Callable[[str], str]:
    return lambda lock: re.sub(rf"(?m)^{name}==\S+", to, lock)


def _dropped(name: str) -> Callable[[str], str]:
    return lambda lock: re.sub(rf"(?m)^{name}==(?:.*\\\n)*.*\n", "", lock)


ATTACKS = (
    _attack("a package without a hash", _line("evil==1.0")),
    _attack("a range", _line(f"evil>=1.0 {HASH}")),
    _attack("any version", _line(f"evil {HASH}")),
    _attack("a weak hash", _line("evil==1.0 --hash=md5:" + "0" * 32)),
    _attack("half a hash", _line("evil==1.0 --hash=sha256:00")),
    _attack("an address", _line(f"evil @ https://example.org/evil.whl {HASH}")),
    _attack("a repository", _line("git+https://example.org/evil.git")),
    _attack("a folder", _line("-e ./kernel")),
    _attack("another index", _line("--index-url https://example.org/simple")),
    _attack("one more index", _line("--extra-index-url https://example.org/simple")),
    _attack("a folder of wheels", _line("--find-links https://example.org/wheels")),
    _attack("an index without a certificate", _line("--trusted-host example.org")),
    _attack("another file", _line("-r other.txt")),
    _attack("constraints", _line("-c other.txt")),
    _attack("sources", _line("--no-binary :all:")),
    _attack("a prerelease", _line("--pre")),
    _attack("a marker", _line(f'evil==1.0 ; python_version < "4" {HASH}')),
    _attack("an extra", _line(f"evil[all]==1.0 {HASH}")),
    _attack("an option of the build", _line(f'evil==1.0 --config-settings="x=y" {HASH}')),
    _attack("a package twice", _line(f"click==9.0 {HASH}")),
    _attack("a dependency is not pinned", _dropped("pydantic")),
    _attack("the build backend is not pinned", _dropped("hatchling")),
    _attack("too old", _pin("click", "click==7.0")),
    _attack("another than the exact one", _pin("junit-xml", "junit-xml==1.8")),
    _attack("a variable", _line(f"evil==${{VERSION}} {HASH}")),
    _attack("a wildcard", _line(f"evil==1.* {HASH}")),
    _attack("equal by text", _line(f"evil===1.0 {HASH}")),
    _attack("empty", lambda _: ""),
)
ENDS = ("", " # ", " \\", " ;")
OPTIONS = ("--index-url", "--extra-index-url", "-f", "-i", "-e", "-r", "-c", "--proxy", "--cert", "--prefer-binary", "--pre")


def _member(numbers: random.Random) -> Attack:
    kinds = (
        f"{numbers.choice(OPTIONS)} https://example.org/{numbers.randrange(999)}",
        f"evil{numbers.randrange(999)}{numbers.choice(('>=', '~=', '!=', '<', ' @ ', '==='))}1.{numbers.randrange(9)} {HASH}",
        f"evil{numbers.randrange(999)}==1.{numbers.randrange(9)} --hash=sha256:{'0' * numbers.randrange(64)}",
        f"evil=={numbers.randrange(9)}.0{numbers.choice(ENDS)}",
    )
    lines, line = LOCK.splitlines(), numbers.choice(kinds)
    places = [number for number, text in enumerate(lines) if not text.startswith(" ")][1:]
    at = numbers.choice(places)
    return _attack(f"{line} at {at}", lambda _: "\n".join([*lines[:at], line, *lines[at:]]) + "\n")


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "problems", lambda _: iter(()))


CLASS = AttackClass(name="lock loosened", attacks=ATTACKS, member=_member, mutant=_mutant)
