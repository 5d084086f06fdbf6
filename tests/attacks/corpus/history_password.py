"""A password in the address of a database, which logs and process lists keep."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from sqlalchemy.engine import make_url

from flashcore_ci.history import address
from flashcore_ci.model.errors import UsageError

SECRET = "hunter2"
WRITTEN = {
    "after the user": f"postgresql://me:{SECRET}@host/db",
    "as an option": f"postgresql://me@host/db?password={SECRET}",
    "as an option with escapes": f"postgresql://me@host/db?p%61ssword={SECRET}",
    "of the client's key": f"postgresql://me@host/db?sslpassword={SECRET}",
    "in a connection string": f"postgresql://me@host/dbname=x password={SECRET}",
    "in an address inside": f"postgresql://host/postgresql://me:{SECRET}@host/db",
    "next to an allowed option": f"postgresql://me@host/db?sslmode=require&password={SECRET}",
    "of a service": f"postgresql://me@host/db?service={SECRET}",
    "in a file that it names": f"postgresql://me@host/db?passfile={SECRET}",
    "of SQLite": f"sqlite:///h.db?key={SECRET}",
}


def _attack(name: str, text: str) -> Attack:
    def attempt(folder: Path) -> bool:
        try:
            address.parse(text, {})
        except UsageError as error:
            return SECRET in f"{error} {error.fix}"
        return True

    return Attack(name=name, attempt=attempt)


def _member(numbers: random.Random) -> Attack:
    option = numbers.choice(("password", "sslpassword", "passfile", "service", "options", "requirepass"))
    escaped = "".join(f"%{ord(letter):02x}" if numbers.random() < 0.3 else letter for letter in option)
    user = numbers.choice(("me", "", "me%40x"))
    return _attack(f"{escaped} of {user!r}", f"postgresql://{user}@host{numbers.randrange(9)}/db?{escaped}={SECRET}")


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "parse", lambda text, _: make_url(text))


CLASS = AttackClass(
    name="a password in an address",
    attacks=tuple(_attack(name, text) for name, text in WRITTEN.items()),
    member=_member,
    mutant=_mutant,
)
