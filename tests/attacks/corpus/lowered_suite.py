"""A pull request lowers the bar that it is judged by: in the suite, or in the waivers next to it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from bars import SUITE, WAIVERS, blocks, cut, edit, judged, read

from flashcore_ci.plan import bar

ADVISORY_ROW = '{ on = "edge", value = 1e-3, unit = "abs", severity = "advisory", why = "x" }, '


def lowers(name: str, suite: str = SUITE, waivers: str = WAIVERS, *, before: str = WAIVERS) -> Attack:
    """Make an attack of head's two files. ``before``: the base's waivers."""

    def attempt(folder: Path) -> bool:
        return not blocks(judged(read(folder / "base", waivers=before), read(folder / "head", suite, waivers)))

    return Attack(name=name, attempt=attempt)


def edited(name: str, *edits: tuple[str, str]) -> Attack:
    """Make an attack of edits of the suite."""
    return lowers(name, edit(SUITE, *edits))


def gate(name: str) -> str:
    """Return the text of one gate."""
    begin = SUITE.index(f'[[gate]]\nid = "{name}"')
    return SUITE[begin : (SUITE + "\n[[gate]]").index("\n[[gate]]", begin)]


def in_gate(name: str, which: str, *edits: tuple[str, str]) -> Attack:
    """Make an attack of edits of one gate."""
    return lowers(name, SUITE.replace(gate(which), edit(gate(which), *edits)))


def with_finding(finding: str) -> str:
    """Return the waivers with this finding of one kernel."""
    return edit(WAIVERS, ("expires", f'finding = "scale_f32 {finding}"\nexpires'))


ONE_FINDING = "k.cu:12 Invalid __global__ read of size 4"
ANY_SELECTION = 'limits = [{ value = 0, unit = "count" }]'
DEFERRED_WAIVER = WAIVERS + WAIVERS.replace('"edge"', '"big-1"')

ATTACKS = (
    lowers("a gate is deleted", SUITE.replace(gate("memcheck"), "")),
    lowers("the comparison is deleted", SUITE.replace(gate("no-slower"), "")),
    lowers("a gate is renamed and loosened", edit(SUITE, ('id = "memcheck"', 'id = "memcheck2"'))),
    edited("a limit of 1e9", ("value = 2e-3", "value = 1e9")),
    edited("a limit that is a little higher", ("value = 2e-3", "value = 2.1e-3")),
    edited("the last row only is higher", ("value = 1e-3", "value = 2e-3")),
    edited("a count may be one", (ANY_SELECTION, 'limits = [{ value = 1, unit = "count" }]')),
    edited("an advisory row first", ('limits = [{ on = "big-*"', f'limits = [{ADVISORY_ROW}{{ on = "big-*"')),
    edited(
        "a loose row first", ('limits = [{ on = "big-*"', 'limits = [{ on = "big-1", value = 1.0, unit = "abs" }, { on = "big-*"')
    ),
    edited("a row is made advisory", ("value = 2e-3,", 'severity = "advisory", value = 2e-3,')),
    in_gate(
        "the rows change places",
        "max-diff",
        (
            '{ on = "big-*", value = 2e-3, unit = "abs" }, { value = 1e-3, unit = "abs" }',
            '{ value = 2e-3, unit = "abs" }, { on = "big-*", value = 1e-3, unit = "abs" }',
        ),
    ),
    in_gate("a row takes more targets", "max-diff", ('on = "big-*"', 'on = "*g*"')),
    in_gate("less equal instead of less", "max-diff", ('rule = "<"', 'rule = "<="')),
    in_gate("an easier metric", "memcheck", ('"memcheck/findings"', '"synccheck/findings"')),
    in_gate(
        "another metric of the same name",
        "max-diff",
        ('"diff/max"', '"error/ratio"'),
        ('unit = "abs"', 'unit = "ratio"'),
        ('unit = "abs"', 'unit = "ratio"'),
    ),
    in_gate("fewer samples", "stability", ("min_samples = 5", "min_samples = 2")),
    in_gate("only some targets", "memcheck", ('why = "because"', 'on = ["edge"]\nwhy = "because"')),
    in_gate("only today's targets by name", "memcheck", ('why = "because"', 'on = ["edge", "big-1", "big-2"]\nwhy = "because"')),
    in_gate("a class of characters in a glob", "stability", ('on = ["big-*"]', 'on = ["big-[2-9]"]')),
    in_gate("tags that few workloads have", "finite", ('tags = ["normal"]', 'tags = ["large"]')),
    in_gate("tags where there were none", "memcheck", ('why = "because"', 'tags = ["large"]\nwhy = "because"')),
    in_gate(
        "roofs where there were none",
        "memcheck",
        ('why = "because"', 'roofs = ["compute", "balanced", "memory"]\nwhy = "because"'),
    ),
    edited("a shape is dropped", ("n = [1, 2]", "n = [1]")),
    edited("a shape is smaller", ("n = [1, 2]", "n = [1, 0]")),
    edited("another seed", ("seed = 7", "seed = 8")),
    edited("the seed is left out", ("seed = 7\n", "")),
    edited("lengths are equal", ('"ragged"', '"equal"')),
    edited("a parameter is left out", (', lengths = "ragged"', "")),
    edited("a number becomes true", ("params = { n = 3", "params = { n = true")),
    edited("sanitizers see fewer workloads", ('"correctness", "sanitizer", "timing"', '"correctness", "timing"')),
    edited("the comparison has no workload", (', "comparison"]', "]"), (gate("no-slower"), "")),
    edited("a workload changes its tags", ('tags = ["normal", "large"]', 'tags = ["large"]')),
    edited("another roof", ('roof = "memory"', 'roof = "balanced"'), ('roofs = ["memory"]', 'roofs = ["memory", "balanced"]')),
    edited("a workload is renamed", ('id = "edge"', 'id = "edges"')),
    edited("another subject's file", ('file = "scale.py"', 'file = "other.py"')),
    edited("fewer processes", ("timing_processes = 9", "timing_processes = 5")),
    edited("fewer repeats", ("repeats = 3", "repeats = 1")),
    edited("a longer time limit", ("timing = 60", "timing = 6000")),
    edited("no time limit", ("timing = 60\n", "")),
    edited("a ridge that makes every roof right", ("flops = 989e12", "flops = 1e12")),
    edited("the ridge of another device", ('"NVIDIA H200"', '"NVIDIA H100"')),
    lowers("a new waiver", waivers=DEFERRED_WAIVER),
    lowers("a waiver for longer", waivers=edit(WAIVERS, ("2026-12-13", "2027-11-13"))),
    lowers("a waiver for another target", waivers=edit(WAIVERS, ('"edge"', '"big-2"'))),
    lowers(
        "a waiver for a pair instead of a day",
        waivers=edit(WAIVERS, ("expires = 2026-12-13", f'pair = "{"0" * 12}..{"1" * 12}"')),
    ),
    lowers(
        "a waiver of any line and message", waivers=with_finding("k.cu:* Invalid __global__*"), before=with_finding(ONE_FINDING)
    ),
    lowers(
        "a waiver of another finding", waivers=with_finding("k.cu:12 Invalid __shared__ read"), before=with_finding(ONE_FINDING)
    ),
    lowers("a waiver of every finding instead of one", before=with_finding(ONE_FINDING)),
    lowers("half of the workloads", cut(SUITE, '[[workload]]\nid = "edge"', "\n\n")),
)


def member(numbers: random.Random) -> Attack:
    """Combine one to three edits, in a suite whose other edits ask more."""
    edits = [
        ("value = 2e-3", f"value = {2e-3 * (1 + 10 ** numbers.uniform(-6, 12))!r}"),
        ("value = 1e-3", f"value = {1e-3 * (1 + 10 ** numbers.uniform(-6, 12))!r}"),
        ("value = 0.3", f"value = {0.3 + 10 ** numbers.uniform(-6, 6)!r}"),
        ("min_samples = 5", f"min_samples = {numbers.randint(2, 4)}"),
        ("seed = 7", f"seed = {numbers.choice([seed for seed in range(100) if seed != 7])}"),
        ("timing_processes = 9", f"timing_processes = {numbers.randint(5, 8)}"),
        ("repeats = 3", f"repeats = {numbers.randint(1, 2)}"),
        ("timing = 60", f"timing = {numbers.randint(61, 86_400)}"),
        ("correctness = 30", f"correctness = {numbers.randint(31, 86_400)}"),
        ("n = [1, 2]", f"n = [1, {numbers.randint(3, 10**6)}]"),
        ("n = 3", f"n = {numbers.choice([0, 1, 2, 4, 5, 10**9])}"),
        ("bandwidth = 4.8e12", f"bandwidth = {numbers.uniform(1e9, 4e12)!r}"),
        ('on = ["big-*"]', f'on = ["{numbers.choice(["big-1", "big-[12]", "b*", "big-*1", "big-?"])}"]'),
    ]
    harmless = [
        ('title = "in bounds"', 'title = "anything"'),
        ("why = ", "why = 'x'#"),
        ('unit = "%" }]\nroofs', "unit = \"%\", why = 'y' }]\nroofs"),
    ]
    chosen = numbers.sample(edits, numbers.randint(1, 3))
    return edited(" and ".join(new for _, new in chosen), *chosen, *numbers.sample(harmless, numbers.randint(0, 2)))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pull request choose its own bar, as before."""
    monkeypatch.setattr(bar, "_change", lambda *_: None)


CLASS = AttackClass(name="a lower bar", attacks=ATTACKS, member=member, mutant=mutant)
