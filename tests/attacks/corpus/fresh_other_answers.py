"""A subject that says one thing when the suites are compared, and another when the kernel is judged."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from bars import ENTRIES, ORIGIN, read

from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.subject import Description
from flashcore_ci.plan import bar
from flashcore_ci.plan.planner import make_plan
from flashcore_ci.run import gate
from flashcore_ci.run.base import subject
from flashcore_ci.run.base.bar import ComparedBar

Other = Callable[[Description], Description]


def answers(name: str, other: Other) -> Attack:
    """Describe the subject by ``other`` when the gate asks. True if the gate goes on with it."""

    def attempt(folder: Path) -> bool:
        base, head = read(folder / "base"), read(folder / "head")
        compared = ComparedBar(difference=bar.compare(base, head), acceptances=(), origin=ORIGIN)
        now = tuple(map(other, head.descriptions))
        assert now != head.descriptions
        plan = replace(make_plan(head.suite, head.descriptions, compared=True), descriptions=now)
        try:
            gate._require_same_answers(compared, plan)
        except SuiteError:
            return False
        return True

    return Attack(name=name, attempt=attempt)


def reads_data(name: str, other: Other) -> Attack:
    """Let the base's subject file read a file of head, so that it asks less when it judges again."""

    def attempt(folder: Path) -> bool:
        before = read(folder / "base").descriptions
        return not subject.less_work(before, tuple(map(other, before)))

    return Attack(name=f"data: {name}", attempt=attempt)


def entries(**changes: Any) -> Other:
    return lambda old: replace(
        old, build=replace(old.build, entries=tuple(replace(entry, **changes) for entry in old.build.entries))
    )


def build(**changes: Any) -> Other:
    return lambda old: replace(old, build=replace(old.build, **changes))


def problems(**changes: Any) -> Other:
    return lambda old: replace(old, problems=tuple(replace(problem, **changes) for problem in old.problems))


def member(numbers: random.Random) -> Attack:
    value = numbers.randrange(97, 256)
    forms: tuple[tuple[str, Other], ...] = (
        (f"{value} registers", entries(max_registers=value)),
        (f"{value} FLOP", problems(flops=float(10**9 + value))),
        (f"{value} bytes", problems(bytes=float(10**9 + value))),
        (f"{value / 64} waits", entries(max_waits_per_hgmma=value / 64)),
        (f"the folder inc{value}", build(includes=(f"inc{value}",))),
        (f"the binding b{value}.py", build(binding=(f"b{value}.py",))),
    )
    return answers(*numbers.choice(forms))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the older tool compare, which does not say what it was told."""
    monkeypatch.setattr(bar, "answers", lambda _: "")
    monkeypatch.setattr(subject, "less_work", lambda *_: "")


ATTACKS = (
    reads_data("less work", problems(flops=1.0)),
    reads_data("less memory", problems(bytes=1.0)),
    reads_data("more work, so that a roof looks near", problems(flops=1e15)),
    reads_data("no entry function", problems(entries=())),
    reads_data("fewer workloads", lambda old: replace(old, problems=old.problems[:1])),
    answers("a larger budget of registers", entries(max_registers=255)),
    answers("no required instruction", entries(requires=())),
    answers("no limit of waits", entries(max_waits_per_hgmma=None)),
    answers("bulk copies", entries(loads_bulk_copies=True)),
    answers("more shared memory", entries(dynamic_shared_bytes=99_999)),
    answers("one entry function", lambda old: replace(old, build=replace(old.build, entries=ENTRIES[:1]))),
    answers("another launcher", build(launchers=("other.cu",))),
    answers("another binding", build(binding=("other.py",))),
    answers("another folder of headers", build(includes=("other",))),
    answers("another library", build(library="libother.so")),
    answers("less work", problems(flops=1.0)),
    answers("less memory", problems(bytes=1.0)),
    answers("another entry function per workload", problems(entries=("scale_f16",))),
    answers("no build", lambda old: replace(old, build=None)),
    answers("fewer workloads", lambda old: replace(old, problems=old.problems[:1])),
    answers("another file", lambda old: replace(old, file="other.py")),
)
CLASS = AttackClass(name="a subject with two answers", attacks=ATTACKS, member=member, mutant=mutant)
