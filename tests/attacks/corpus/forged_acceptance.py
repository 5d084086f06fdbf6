"""A pull request lowers the bar and brings an acceptance that was not given to it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from bars import ORIGIN, SUITE, accept, blocks, edit, judged, read

from flashcore_ci.judge import bar as judging
from flashcore_ci.model.bar import Acceptance, BarDifference
from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.plan import bar
from flashcore_ci.run.bar import unknown
from flashcore_ci.run.base import bar as base_bar
from flashcore_ci.suite.acceptances import read_acceptances, write_acceptance

LOWER = edit(SUITE, ("value = 2e-3", "value = 1e9"))
LOWEST = edit(LOWER, ("value = 1e-3", "value = 1e9"))
Forge = Callable[[BarDifference, BarDifference], dict[str, str]]


def forged(name: str, forge: Forge) -> Attack:
    """Make an attack with other digests in the file. ``forge`` gets this difference and another that was accepted."""

    def attempt(folder: Path) -> bool:
        base, head = read(folder / "base"), read(folder / "head", LOWER)
        difference, other = bar.compare(base, head), bar.compare(base, read(folder / "other", LOWEST))
        return not blocks(judged(base, head, accept(difference, **forge(difference, other))))

    return Attack(name=name, attempt=attempt)


def on_disk(name: str, prepare: Callable[[Path, Path, BarDifference], None]) -> Attack:
    """Make an attack with files. ``prepare`` writes those of base and head."""

    def attempt(folder: Path) -> bool:
        base, head = read(folder / "base"), read(folder / "head", LOWER)
        prepare(folder / "base/tiny.toml", folder / "head/tiny.toml", bar.compare(base, head))
        try:
            found = base_bar.new_acceptances(folder / "base", folder / "head", Path("tiny.toml"))
        except FlashcoreError:
            return False
        return not blocks(judged(base, head, *found))

    return Attack(name=name, attempt=attempt)


def later(name: str, text: str) -> Attack:
    """Make an attack that changes head after the acceptance."""

    def attempt(folder: Path) -> bool:
        base = read(folder / "base")
        old = bar.compare(base, read(folder / "head", LOWER))
        return not blocks(judged(base, read(folder / "later", text), accept(old)))

    return Attack(name=name, attempt=attempt)


def merged_before(base: Path, head: Path, difference: BarDifference) -> None:
    """Use an acceptance of the base again."""
    for suite in (base, head):
        write_acceptance(suite, difference, why="known", owner="kernels")


def renamed(base: Path, head: Path, difference: BarDifference) -> None:
    """Use it again under another name."""
    merged_before(base, head, difference)
    (file,) = (head.parent / "acceptances").iterdir()
    file.rename(file.with_name("new.toml"))


def another_owner(base: Path, head: Path, difference: BarDifference) -> None:
    """Use it again for another owner."""
    write_acceptance(base, difference, why="known", owner="kernels")
    write_acceptance(head, difference, why="known", owner="maintainers")


def linked(base: Path, head: Path, difference: BarDifference) -> None:
    """Link to a file that has no owners."""
    write_acceptance(head, difference, why="known", owner="kernels")
    (file,) = (head.parent / "acceptances").iterdir()
    file.rename(head.parent / "free.toml")
    file.symlink_to("../free.toml")


def linked_folder(base: Path, head: Path, difference: BarDifference) -> None:
    """Link to a folder that has no owners."""
    write_acceptance(head, difference, why="known", owner="kernels")
    (head.parent / "acceptances").rename(head.parent / "free")
    (head.parent / "acceptances").symlink_to("free")


def without_difference(name: str, problem: BarDifference) -> Attack:
    """Make an attack on a comparison that did not take place."""

    def attempt(_: Path) -> bool:
        verdicts = judging.judge_bar(problem, (accept(problem),), origin=ORIGIN)
        return not blocks(verdicts)

    return Attack(name=name, attempt=attempt)


ATTACKS = (
    forged("the digest of another difference", lambda _, other: {"difference": other.digest}),
    forged("the digest of another base", lambda *_: {"base": "0" * 64}),
    forged("both digests in each other's place", lambda this, _: {"base": this.digest, "difference": this.base}),
    forged("half of the digest", lambda this, _: {"difference": this.digest[:32]}),
    forged("no digests", lambda *_: {"difference": "", "base": ""}),
    forged("a pattern", lambda *_: {"difference": "*", "base": "*"}),
    forged("a digest in capital letters", lambda this, _: {"difference": this.digest.upper() + " "}),
    forged("a digest with a blank", lambda this, _: {"difference": f"{this.digest} "}),
    forged("the base's digest twice", lambda this, _: {"difference": this.base}),
    later("one more limit after the review", LOWEST),
    later("one more waiver's worth after the review", edit(LOWER, ("repeats = 3", "repeats = 1"))),
    later("a harmless change after the review", edit(LOWER, ("repeats = 3", "repeats = 30"))),
    later("a higher limit after the review", edit(LOWER, ("value = 1e9", "value = 1e10"))),
    later("another gate after the review", edit(LOWER, ("value = 0.3", "value = 3"))),
    on_disk("an acceptance that was merged before", merged_before),
    on_disk("an acceptance that was merged before, renamed", renamed),
    on_disk("an acceptance that was merged before, for another owner", another_owner),
    on_disk("a link to an acceptance", linked),
    on_disk("a link to a folder of acceptances", linked_folder),
    without_difference("an acceptance of a suite that nobody could read", unknown("the base's tool cannot read it")),
    without_difference("an acceptance of nothing", replace(unknown("no"), problem_code="")),
)


def member(numbers: random.Random) -> Attack:
    """Change digits of the digests, or head after the review."""
    kind, value = numbers.randrange(3), 10 ** numbers.uniform(-2, 9)
    if kind == 2:
        return later(f"a limit of {value} after the review", edit(LOWER, ("value = 1e9", f"value = {1e9 + value!r}")))
    place, step, key = numbers.randrange(64), numbers.randint(1, 15), ("base", "difference")[kind]

    def forge(this: BarDifference, _: BarDifference) -> dict[str, str]:
        digest = this.base if key == "base" else this.digest
        return {key: f"{digest[:place]}{(int(digest[place], 16) + step) % 16:x}{digest[place + 1 :]}"}

    return forged(f"digit {place} of {key} plus {step}", forge)


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept whatever has a file, as a label would."""
    monkeypatch.setattr(judging, "accepted_by", lambda _, acceptances: next(iter(acceptances), None))
    monkeypatch.setattr(base_bar, "new_acceptances", lambda _, head, suite: _read_any(head / suite))
    known = judging.judge_bar
    monkeypatch.setattr(judging, "judge_bar", lambda d, a, **more: () if d.problem_code or d.problem else known(d, a, **more))


def _read_any(suite: Path) -> tuple[Acceptance, ...]:
    folder = suite.parent / "acceptances"
    for file in sorted(folder.glob("*.toml")):
        content = file.read_text(encoding="utf-8")
        file.unlink()
        file.write_text(content, encoding="utf-8")
    if folder.is_symlink():
        real = folder.resolve()
        folder.unlink()
        real.rename(folder)
    return read_acceptances(suite)


CLASS = AttackClass(name="a forged acceptance", attacks=ATTACKS, member=member, mutant=mutant)
