"""Numbers that no clock reaches, days that no calendar has, and links in the files of a commit."""

from __future__ import annotations

import contextlib
import datetime as dt
import random
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from attacking import Attack, AttackClass

from flashcore_ci.cli import options
from flashcore_ci.judge import waivers
from flashcore_ci.model.errors import FlashcoreError, as_flashcore_error
from flashcore_ci.model.suite import Waiver
from flashcore_ci.run.base import checkout
from flashcore_ci.run.request import Request
from flashcore_ci.suite import tables
from flashcore_ci.suite.problems import Problems

WAIVER = Waiver(gate="g", target="t", reason="r", owner="o", expires="2026-12-31")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "kernel/subjects/a.py"


def day(text: str) -> Attack:
    """Judge as of this day, under a waiver. True if the gate ends with a traceback, or takes the day."""

    def attempt(_: Path) -> bool:
        try:
            moment = options.Moment().convert(text, None, None)
        except click.UsageError:
            return False
        try:
            list(waivers.waiver_notes([WAIVER], [], waivers.day_of(moment)))
        except (OverflowError, ValueError):
            return True
        return dt.datetime.fromisoformat(moment).year not in options.YEARS

    return Attack(name=f"as of {text}", attempt=attempt)


def seconds(text: str) -> Attack:
    """Wait for a lock until a moment that never comes."""

    def attempt(_: Path) -> bool:
        try:
            found = options.Seconds(min=0).convert(text, None, None)
        except click.UsageError:
            return False
        return not found >= 0

    return Attack(name=f"wait for {text} seconds", attempt=attempt)


def protocol(name: str, **changes: object) -> Attack:
    def attempt(_: Path) -> bool:
        table = {"timing_processes": 9, "repeats": 3, "timeouts": {"timing": 60.0}, **changes}
        return Problems("s.toml").read(tables.ProtocolTable, table, "protocol") is not None

    return Attack(name=f"protocol: {name}", attempt=attempt)


def commit(name: str, link: Callable[[Path, Path], object]) -> Attack:
    """Bring a commit with a link where the base's subject file is put. True if somebody else's file changes."""

    def attempt(folder: Path) -> bool:
        theirs, base = folder / "theirs", folder / "base"
        for top, text in ((theirs, "theirs"), (base, "base")):
            (top / NAME).parent.mkdir(parents=True)
            (top / NAME).write_text(text)

        def export(_root: Path, _commit: str, *, into: Path, logs: Path) -> None:
            into.mkdir(parents=True)
            link(into, theirs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checkout.git_export, "export", export)
            request = Request(suite=Path("s.toml"), out=folder, environ={"FLASHCORE_CI_HOME": str(folder / "home")})
            with contextlib.suppress(FlashcoreError):
                checkout.check_out(COMMIT, request, folder, other_files=(NAME,), other=base)
        return (theirs / NAME).read_text() != "theirs"

    return Attack(name=f"commit: {name}", attempt=attempt)


def linked(place: str, to: str) -> Callable[[Path, Path], object]:
    def link(into: Path, theirs: Path) -> None:
        (into / place).parent.mkdir(parents=True, exist_ok=True)
        (into / place).symlink_to(theirs / to)

    return link


def second_link(into: Path, theirs: Path) -> None:
    (into / "kernel").mkdir()
    (into / "a").symlink_to(theirs)
    (into / "kernel/subjects").symlink_to("../a/kernel/subjects")


def gone(error: OSError) -> Attack:
    """Start in a folder that is gone. True if this is called a bug of the tool."""
    return Attack(name=f"gone: {error!r}", attempt=lambda _: as_flashcore_error(error) is error)


def member(numbers: random.Random) -> Attack:
    year = numbers.choice([numbers.randrange(1, 2000), numbers.randrange(9000, 10_000)])
    makers: tuple[Callable[[], Attack], ...] = (
        lambda: day(f"{year:04}-{numbers.randrange(1, 13):02}-{numbers.randrange(1, 29):02}"),
        lambda: seconds(numbers.choice(["nan", "-nan", "NaN", "+NAN", " nan "])),
        lambda: protocol("processes", timing_processes=numbers.randrange(1001, 1 << 60)),
        lambda: protocol("repeats", repeats=numbers.randrange(1001, 1 << 60)),
        lambda: protocol("time", timeouts={"timing": 10 ** numbers.uniform(5, 300)}),
        lambda: commit(
            "a folder", linked(*numbers.choice([("kernel", "kernel"), ("kernel/subjects", "kernel/subjects"), (NAME, NAME)]))
        ),
    )
    return numbers.choice(makers)()


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every number and day, and write through links."""
    monkeypatch.setattr(options, "YEARS", range(1, 10_000))
    monkeypatch.setattr(options.math, "isnan", lambda _: False)
    monkeypatch.setattr(Problems, "read", lambda _, model, table, key: model.model_construct(**table))
    monkeypatch.setattr(checkout, "_refuse_link", lambda *_: None)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    monkeypatch.setitem(globals(), "as_flashcore_error", lambda error: error)


ATTACKS = (
    day("9999-12-31"),
    day("9999-12-31T23:59:59Z"),
    day("9999-01-01T00:00:00-12:00"),
    seconds("nan"),
    seconds("-nan"),
    protocol("so many processes that the GPU is never free", timing_processes=1 << 50),
    protocol("so many repeats", repeats=1 << 50),
    protocol("a time limit of years", timeouts={"timing": 1e18}),
    protocol("a time limit without end", timeouts={"correctness": float("inf")}),
    commit("the file is a link", linked(NAME, NAME)),
    commit("its folder is a link", linked("kernel/subjects", "kernel/subjects")),
    commit("the folder above is a link", linked("kernel", "kernel")),
    commit("a link to a link", second_link),
    gone(FileNotFoundError(2, "No such file or directory")),
)
CLASS = AttackClass(name="numbers and links without a place", attacks=ATTACKS, member=member, mutant=mutant)
