"""The launch list of the sanitizer does not prove that the planned kernels were checked."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import tool_files as run
from attacking import Attack, AttackClass

from flashcore_ci.adapters import sanitizer_log
from flashcore_ci.adapters.sanitizer_log import Launch
from flashcore_ci.collect import sanitizer
from flashcore_ci.model.reading import Measured

GOOD = run.listing(("fill", 8, False), *run.marked(0), *run.marked(1), ("copy", 1, False))
ROWS = (("fill", 8, False), *run.marked(0), *run.marked(1), ("copy", 1, False))
FIRST = "========= Launch #3\n"


def attack(name: str, text: str, index: int = 0) -> Attack:
    def attempt(_: Path) -> bool:
        launches = sanitizer_log.read_launches(text)
        found = sanitizer.count_checked(sanitizer.between_marks(launches, index), (run.ENTRY,), {})
        return isinstance(found, Measured)

    return Attack(name=name, attempt=attempt)


def line(text: str) -> str:
    return GOOD.replace(FIRST, f"========= {text}\n{FIRST}")


BEGIN, END = run.marked(0)[0], run.marked(0)[-1]
KERNEL = run.marked(0)[1]
ATTACKS = (
    attack("cut before the summary", GOOD[: GOOD.index("========= ERROR SUMMARY")]),
    attack("cut within the summary", GOOD[:-8]),
    attack("the summary counts one launch more", GOOD.replace(": 10 errors", ": 11 errors")),
    attack("the summary counts one launch fewer", GOOD.replace(": 10 errors", ": 9 errors")),
    attack("the summary counts none", GOOD.replace(": 10 errors", ": 0 errors")),
    attack("launches were copied to fill up", GOOD.replace(FIRST, "========= Launch #3\n", 1).replace("Launch #4\n", "Launch #3\n")),
    attack("a launch of another process was inserted", GOOD.replace(FIRST, f"{FIRST}=========   Kernel: {run.ENTRY}\n=========   Grid:   (1, 1, 1)\n{run.BLANK}{FIRST}")),
    attack("the tool lost track", line("Warning: Detected a failure to track a kernel launch. Future records might be incomplete")),
    attack("the tool says something unknown", line("3 launches were not listed")),
    attack("output of the target in the list", GOOD.replace(FIRST, f"all is well\n{FIRST}")),
    attack("two lists in one file", GOOD * 2),
    attack("the marks come twice", run.listing(*run.marked(0), *run.marked(0), *run.marked(1))),
    attack("marks of another workload inside", run.listing(BEGIN, *run.marked(1), KERNEL, KERNEL, END)),
    attack("a workload that ends inside another", run.listing(BEGIN, run.marked(1)[0], KERNEL, KERNEL, END, run.marked(1)[-1])),
    attack("a workload that begins twice", run.listing(BEGIN, ("fill", 1, False), BEGIN, KERNEL, KERNEL, END)),
    attack("a workload that ends twice", run.listing(BEGIN, KERNEL, KERNEL, END, END)),
    attack("no header", GOOD.removeprefix(run.HEADER)),
    attack("a launch number of the second process", GOOD.replace("Launch #10", "Launch #1")),
)  # fmt: skip


def member(numbers: random.Random) -> Attack:
    """Cut, renumber or extend a good list at random."""
    lines = GOOD.splitlines(keepends=True)
    heads = [index for index, text in enumerate(lines) if "Launch #" in text]
    kinds: Sequence[Callable[[], str]] = (
        lambda: "".join(lines[: numbers.randint(heads[-2], len(lines) - 1)]),
        lambda: GOOD.replace(": 10 errors", f": {numbers.choice([*range(2, 10), *range(11, 999)])} errors"),
        lambda: GOOD.replace(f"Launch #{(old := numbers.randint(1, 10))}", f"Launch #{old + numbers.randint(1, 50)}", 1),
        lambda: "".join(_inserted(lines, numbers, f"========= {numbers.getrandbits(64):x} of something\n")),
    )
    return attack("a damaged list", numbers.choice(kinds)())


def _inserted(lines: list[str], numbers: random.Random, text: str) -> list[str]:
    heads = [index for index, line in enumerate(lines) if "Launch #" in line]
    place = numbers.choice([*heads, len(lines)])
    return [*lines[:place], text, *lines[place:]]


def between_marks_of_c3d5a88(launches: Sequence[Launch], index: int, _: object = None) -> object:
    inside, began, ended = [], False, False
    for launch in launches:
        if launch.kernel == "flashcore_ci_begin" and launch.width == index + 1:
            began = True
        elif launch.kernel == "flashcore_ci_end" and launch.width == index + 1:
            ended = began
            break
        elif began:
            inside.append(launch)
    assert ended
    checked = tuple(launch.kernel for launch in inside if launch.checked)
    return sanitizer.ObservedLaunches(checked=checked, others=())


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take whatever launches are found."""
    monkeypatch.setattr(sanitizer_log, "read_launches", sanitizer_log.parse_launches)
    monkeypatch.setattr(sanitizer, "between_marks", between_marks_of_c3d5a88)


CLASS = AttackClass(name="a launch list that is not whole", attacks=ATTACKS, member=member, mutant=mutant)
