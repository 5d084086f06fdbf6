"""A pull request omits a key, so that its default asks less than the base's value."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from bars import SUITE, blocks, cut, edit, judged, read

from flashcore_ci.plan import bar

FINITE = SUITE[SUITE.index('[[gate]]\nid = "finite"') : SUITE.index('[[gate]]\nid = "memcheck"')]
NO_SLOWER = SUITE[SUITE.index('[[gate]]\nid = "no-slower"') :]
GATES = SUITE[SUITE.index("[[gate]]") :]


def omits(name: str, head: str, base: str = SUITE, project: str = "") -> Attack:
    """Make an attack of a suite with fewer keys."""

    def attempt(folder: Path) -> bool:
        for tree in ("base", "head"):
            (folder / tree / "easy").mkdir(parents=True)
            (folder / tree / "easy/scale.py").write_text("from elsewhere import *\n")
        if project:
            (folder / "head/pyproject.toml").write_text(project)
        return not blocks(judged(read(folder / "base", base), read(folder / "head", head)))

    return Attack(name=name, attempt=attempt)


WIDE = edit(SUITE, ("timing_processes = 9", "timing_processes = 9"), ("repeats = 3", "repeats = 200"))
RIDGE = edit(SUITE, ("flops = 989e12", "flops = 2000e12"))
ATTACKS = (
    omits("the rule of a gate", edit(SUITE, ('rule = "<"\nlimits = [{ on = "big-*"', 'limits = [{ on = "big-*"'))),
    omits("the rule of a floor of samples", edit(SUITE, ('rule = "<"\nlimits = [{ value = 2, unit = "%" }]', 'limits = [{ value = 2, unit = "%" }]'))),
    omits("the number of processes", edit(SUITE, ("timing_processes = 9\n", ""))),
    omits("the number of repeats", edit(WIDE, ("repeats = 200\n", "")), WIDE),
    omits("every timeout", cut(SUITE, "[protocol.timeouts]", "correctness = 30\n")),
    omits("the whole protocol", cut(SUITE, "[protocol]", "correctness = 30\n")),
    omits("the ridge", cut(RIDGE, "[ridge]", "bandwidth = 4.8e12\n"), RIDGE),
    omits("the margin of a standard gate", edit(SUITE, ('limits = [{ value = 0.3, unit = "%" }]\n', ""))),
    omits("all gates", SUITE[: SUITE.index("[[gate]]")]),
    omits("the tags of a workload", edit(SUITE, ('tags = ["normal", "large"]\n', ""))),
    omits("the roof of a workload", edit(SUITE, ('subject = "scale"\nroof = "memory"\nseed', 'subject = "scale"\nseed'))),
    omits("the seed of a workload", edit(SUITE, ("seed = 7\n", ""))),
    omits("what a workload collects", edit(SUITE, ('collect = ["correctness", "sanitizer"]\ntags = ["normal"]', 'tags = ["normal"]'), (NO_SLOWER, ""))),
    omits("the severity of a new first row", edit(SUITE, ('limits = [{ on = "big-*"', 'limits = [{ on = "e*", value = 9 }, { on = "big-*"'))),
    omits("the file of a subject", edit(SUITE, ('file = "scale.py"\n', "")), project='[tool.flashcore-ci]\nsubjects = "easy"\n'),
)  # fmt: skip


def member(numbers: random.Random) -> Attack:
    """Write any values into the base, and omit them in head."""
    processes = numbers.randrange(10, 1000)
    margin = numbers.uniform(0.01, 0.9)
    base = edit(SUITE, ("timing_processes = 9", f"timing_processes = {processes}"), ("value = 0.3", f"value = {margin:.4f}"))
    if numbers.random() < 0.5:
        return omits(f"{processes} processes", edit(base, (f"timing_processes = {processes}\n", "")), base)
    return omits(f"a margin of {margin}", edit(base, (f'limits = [{{ value = {margin:.4f}, unit = "%" }}]\n', "")), base)


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every difference for a free one."""
    monkeypatch.setattr(bar, "_change", lambda *_: None)


CLASS = AttackClass(name="a default loosens a gate", attacks=ATTACKS, member=member, mutant=mutant)
