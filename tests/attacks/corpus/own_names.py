"""Foreign files under names that the tool uses itself: temporary files of alerts and pages, files that appear late, lines without an end."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.model.alerts import AlertedSeries, AlertFile, AlertState
from flashcore_ci.model.anchor import Pin, PinnedCode
from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.run import dashboard
from flashcore_ci.suite import alerts, anchors

FOREIGN = b"a thesis of three years"
COMMIT = "a" * 40
ALERT = AlertFile(
    id=f"{COMMIT[:12]}-01234567", state=AlertState.DETECTED, opened="2026-11-20", commit=COMMIT, last_good="b" * 40,
    series=(AlertedSeries(suite="s", workload="w", machine_class="m", percent=1.0, standard_error=0.1, z=8.0),),
)  # fmt: skip
DIGEST = "c" * 64
PIN = Pin(
    suite="s", commit=COMMIT, since="2026-11-20", reason="it is old", owner="kernels", compiler="nvcc 13", tools=(),
    codes={"w": PinnedCode(subject="s", machine_code=DIGEST, launcher=DIGEST, binding=DIGEST, source=DIGEST)},
)  # fmt: skip
Place = Callable[[Path, Path], object]
PLACES: dict[str, Place] = {
    "a link": lambda target, other: target.symlink_to(other),
    "a relative link": lambda target, other: target.symlink_to(os.path.relpath(other, target.parent)),
    "a second name": lambda target, other: os.link(other, target),
}


def alert(place: Place) -> Callable[[Path], bool]:
    """Let an alert be written where its temporary file has another owner."""

    def attempt(folder: Path) -> bool:
        target = folder / f"gates/alerts/{ALERT.id}.tmp"
        return _changes(folder, target, place, lambda: alerts.write_alert(folder / "gates/s.toml", ALERT))

    return attempt


def page(place: Place, name: str = "index.html") -> Callable[[Path], bool]:
    """Let a page be written where its temporary file has another owner."""

    def attempt(folder: Path) -> bool:
        target = folder / f"site/.{name}.part"
        return _changes(folder, target, place, lambda: dashboard._write(folder / "site" / name, b"<html>"))

    return attempt


def folder_behind_a_link(folder: Path) -> bool:
    """Write alerts into a folder that a link names, so that nobody reviews them."""
    (folder / "gates").mkdir()
    (folder / "elsewhere").mkdir()
    (folder / "gates/alerts").symlink_to(folder / "elsewhere")
    with contextlib.suppress(FlashcoreError):
        alerts.read_alerts(folder / "gates/s.toml")
        alerts.write_alert(folder / "gates/s.toml", ALERT)
    return any((folder / "elsewhere").iterdir())


def late(name: str) -> Callable[[Path], bool]:
    """Let a file appear in the folder of the site while its pages are made."""

    def attempt(folder: Path) -> bool:
        out = folder / "site"

        def make(_: object) -> dict[str, bytes]:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(FOREIGN)
            return {"index.html": b"<html>"}

        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(FlashcoreError):
            patch.setattr(dashboard, "read", lambda *_: None)
            patch.setattr(dashboard, "site", SimpleNamespace(files=make))
            dashboard.build("", {}, folder / "s.toml", out)
        return not (out / name).exists()

    return attempt


def unended(text: str) -> Callable[[Path], bool]:
    """Add an anchor to a file whose last line has no end. True if an anchor is lost."""

    def attempt(folder: Path) -> bool:
        suite = folder / "s.toml"
        file = anchors.append_anchor(suite, PIN)
        file.write_text(file.read_text().rstrip("\n") + text)
        try:
            anchors.append_anchor(suite, replace(PIN, commit="d" * 40))
            return len(anchors.read_anchors(suite)) != 2
        except FlashcoreError:
            return True

    return attempt


def _changes(folder: Path, target: Path, place: Place, act: Callable[[], object]) -> bool:
    other = folder / "other"
    other.write_bytes(FOREIGN)
    target.parent.mkdir(parents=True)
    place(target, other)
    with contextlib.suppress(FlashcoreError):
        act()
    return other.read_bytes() != FOREIGN


def member(draw: random.Random) -> Attack:
    word = "".join(draw.choices("abcdef0123456789", k=12))
    name, place = draw.choice(list(PLACES.items()))
    makers: tuple[Callable[[], Attack], ...] = (
        lambda: Attack(name=f"{name} as the temporary file of an alert", attempt=alert(place)),
        lambda: Attack(name=f"{name} as the temporary file of {word}.html", attempt=page(place, f"{word}.html")),
        lambda: Attack(name=f"{word} appears while pages are made", attempt=late(draw.choice(["", "w/"]) + word)),
        lambda: Attack(name="an anchor after a comment without an end", attempt=unended(f"\n# {word}")),
    )
    return draw.choice(makers)()


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Open what is there, look at a folder only once, and trust that a line has an end."""

    def write_alert(suite: Path, alert: AlertFile) -> None:
        file = suite.parent / f"alerts/{alert.id}.toml"
        file.with_suffix(".tmp").write_text(alerts.text_of(alert))
        file.with_suffix(".tmp").replace(file)

    def write(path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".{path.name}.part").write_bytes(content)
        path.with_name(f".{path.name}.part").replace(path)

    def append(suite: Path, pin: Pin) -> Path:
        with (suite.parent / "anchor.toml").open("a") as stream:
            stream.write("\n".join(anchors._lines(pin)) + "\n")
        return suite.parent / "anchor.toml"

    patch.setattr(alerts, "write_alert", write_alert)
    patch.setattr(alerts, "read_alerts", lambda _: ())
    patch.setattr(dashboard, "_write", write)
    patch.setattr(dashboard, "refuse_foreign", lambda _: None)
    patch.setattr(anchors, "append_anchor", append)


CLASS = AttackClass(
    name="own names",
    attacks=(
        *(Attack(name=f"{name} as the temporary file of an alert", attempt=alert(place)) for name, place in PLACES.items()),
        *(Attack(name=f"{name} as the temporary file of a page", attempt=page(place)) for name, place in PLACES.items()),
        Attack(name="a folder of alerts behind a link", attempt=folder_behind_a_link),
        *(Attack(name=f"{name} appears while pages are made", attempt=late(name)) for name in ("thesis.tex", "w/notes", ".env")),
        Attack(name="an anchor after a line without an end", attempt=unended("")),
        Attack(name="an anchor after a comment without an end", attempt=unended("\n# the end")),
    ),
    member=member,
    mutant=mutant,
)
