"""A pull request makes the base unable to run, so that a slower kernel is compared with nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from bars import SUITE, describe, edit, read

from flashcore_ci.judge.judge import judge
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import StalePolicy
from flashcore_ci.plan import planner
from flashcore_ci.run import gate
from flashcore_ci.run.base import prepare

ALL = ("big-1", "big-2")
NOON = "2026-11-22T12:00:00Z"


def refuses(name: str, why: str, *edits: tuple[str, str], targets: tuple[str, ...] = ALL, base: str = SUITE) -> Attack:
    """Make an attack: with these edits of its suite, head says that the base cannot run ``targets``."""

    def attempt(folder: Path) -> bool:
        read(folder / "base", base) if base == SUITE else _write(folder / "base", base)
        head = read(folder / "head", edit(SUITE, *edits))
        workloads = head.suite.workloads
        plan = planner.make_plan(head.suite, (describe(tuple(w.id for w in workloads)),), compared=True)
        new = prepare._new_workloads(workloads, folder / "base", Path("tiny.toml"))
        cannot = dict.fromkeys(targets, why)
        plan = planner.drop_comparisons(plan, gate.new_only(cannot, new))
        report = judge(plan, (), (), waivers=(), as_of=NOON, stale=StalePolicy.DEFER, tool="test", no_base=cannot)
        asked = {v.target for v in report.verdicts if v.evidence is Kind.COMPARISON and v.blocks}
        return not set(targets) <= asked

    return Attack(name=name, attempt=attempt)


def _write(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "tiny.toml").write_text(text, encoding="utf-8")


RENAMED = (('id = "big-{n}"', 'id = "large-{n}"'), ('on = ["big-*"]', 'on = ["large-*"]'), ('on = "big-*"', 'on = "large-*"'))
LARGE = ("large-1", "large-2")

ATTACKS = (
    refuses("the subject raises in the base's checkout", "workload big-1: RuntimeError: not here"),
    refuses("the subject names a function that the base lacks", "workload big-1 launches new, which the base does not build"),
    refuses("the base does not compile with head's subject", "the base does not build: no such file"),
    refuses("only one workload is refused", "ValueError", targets=("big-2",)),
    refuses("the reason says that it is new", "the workload is new: really"),
    refuses("the reason has the old prefix", "no-base: no-base: "),
    refuses("the reason is empty", ""),
    refuses("the same problem has a new id", "unknown parameter", *RENAMED, targets=LARGE),
    refuses("the same problem has a new id and tags", "unknown", *RENAMED, ('"normal", "large"]', '"normal"]'), targets=LARGE),
    refuses("the same problem has a new id and a roof", "unknown", *RENAMED, ('"memory"', '"balanced"'), ('["memory"]', '["balanced"]'), targets=LARGE),
    refuses("a workload that was never compared is compared now", "ValueError", ('collect = ["correctness", "sanitizer"]', 'collect = ["correctness", "sanitizer", "comparison"]'), targets=("edge",)),
    refuses("the base's suite cannot be read", "ValueError", base="[["),
    refuses("the base's suite has an unknown key", "ValueError", base=f"future = 1\n{SUITE}"),
    refuses("the base has no suite", "ValueError", base=""),
)  # fmt: skip


def member(numbers: random.Random) -> Attack:
    """Refuse some workloads, with any words, and in any order of the tables."""
    targets = tuple(numbers.sample(ALL, numbers.randint(1, 2)))
    why = "".join(numbers.choice("the base cannot run: new no-") for _ in range(numbers.randrange(40)))
    more = [('title = "no slower"', f'title = "{numbers.random()}"'), ("repeats = 3", f"repeats = {numbers.randint(3, 99)}")]
    return refuses(f"{targets} because {why!r}", why, *numbers.sample(more, numbers.randint(0, 2)), targets=targets)


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out whatever the base cannot run, as before."""
    monkeypatch.setattr(gate, "new_only", lambda cannot, _: dict(cannot))


CLASS = AttackClass(name="a base that is refused", attacks=ATTACKS, member=member, mutant=mutant)
