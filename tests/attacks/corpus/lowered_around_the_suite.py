"""A pull request lowers the bar next to the suite: references, self-test, dependencies, and what the subject declares."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from bars import ENTRIES, SELFTEST, SUITE, blocks, describe, edit, judged, read
from factories import make_entry_spec

from flashcore_ci.model.bar import Side
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.plan import bar
from flashcore_ci.run.bar import _dependencies, _references, _selftest

WORKLOADS = ("big-1", "big-2", "edge")
DEFECTS: list[dict[str, Any]] = SELFTEST["defect"]


def changes(name: str, alter: Callable[[Side], Side]) -> Attack:
    """Make an attack of another head."""

    def attempt(folder: Path) -> bool:
        base = read(folder / "base")
        return not blocks(judged(base, alter(base)))

    return Attack(name=name, attempt=attempt)


def entries(name: str, *others: Any) -> Attack:
    """Make an attack of other entry functions."""
    return changes(name, lambda side: replace(side, descriptions=(describe(WORKLOADS, others),)))


def selftest(name: str, **parts: Any) -> Attack:
    """Make an attack of another self-test."""
    return changes(name, lambda side: replace(side, selftest={**SELFTEST, **parts}))


def references(name: str, **files: str | None) -> Attack:
    """Make an attack of other files with references. None removes one."""
    return on_disk(name, files, _references, "references")


def dependencies(name: str, **files: str | None) -> Attack:
    """Make an attack of other files with dependencies."""
    return on_disk(name, files, _dependencies, "dependencies")


def other_selftest(name: str, **files: str | None) -> Attack:
    """Make an attack of the self-test of a suite that is not the project's own."""
    return on_disk(name, files, lambda tree: _selftest(tree, Path("gates/other.toml"), Path("gates/selftest.toml")), "selftest")


TESTS = """guard = "gates/other.toml"
defect = [{ name = "wrong", gate = "right", reason = "over-limit" }, { name = "slow", gate = "fast", slower = 1.0 }]
"""
FILES = {
    "gates/selftest.toml": TESTS.replace("other", "hopper"),
    "gates/tests.toml": TESTS,
    "noise/h200.json": "{}",
    "baselines/h200.json": "{}",
    "uv.lock": "click==8.1",
    "requirements.txt": "click==8.1",
    "pyproject.toml": '[project]\nname = "x"\ndependencies = ["click"]\n[build-system]\nrequires = ["hatchling"]\n[tool.ruff]\nline-length = 1\n',
}


def on_disk(name: str, files: dict[str, str | None], of: Callable[[Path], Any], field: str) -> Attack:
    """Make an attack that changes files of the checkout."""

    def attempt(folder: Path) -> bool:
        sides = []
        for tree, content in (
            (folder / "a", FILES),
            (folder / "b", {**FILES, **{key.replace("__", "/").replace("_", "."): text for key, text in files.items()}}),
        ):
            for file, text in content.items():
                (tree / file).parent.mkdir(parents=True, exist_ok=True)
                if text is not None:
                    (tree / file).write_text(text, encoding="utf-8")
            try:
                sides.append(dict(of(tree)))
            except SuiteError:
                return False
        base = replace(read(folder / "base"), **{field: sides[0]})
        return not blocks(judged(base, replace(base, **{field: sides[1]})))

    return Attack(name=name, attempt=attempt)


def weaker_guard(name: str, *edits: tuple[str, str]) -> Attack:
    """Make an attack of the suite of broken kernels, which guards the gates."""

    def attempt(folder: Path) -> bool:
        base = read(folder / "base")
        base = replace(base, selftest_suite=base.suite)
        return not blocks(judged(base, replace(base, selftest_suite=read(folder / "head", edit(SUITE, *edits)).suite)))

    return Attack(name=name, attempt=attempt)


F32, F16 = ENTRIES
PYPROJECT = str(FILES["pyproject.toml"])

ATTACKS = (
    references("another noise file", noise__h200_json='{"scatter": 9}'),
    references("no noise file", noise__h200_json=None),
    references("a noise file for one more machine", noise__h100_json="{}"),
    references("a packed noise file", noise__h100_json_xz="{}"),
    references("another baseline", baselines__h200_json='{"ms": 9}'),
    references("no baseline", baselines__h200_json=None),
    references("a baseline for one more machine", baselines__b200_json="{}"),
    dependencies("another lock file", uv_lock="click==6.6.6"),
    dependencies("no lock file", uv_lock=None),
    dependencies("one more lock file", other_lock="click==6.6.6"),
    dependencies("other requirements", requirements_txt="click @ https://example.org/click.whl"),
    dependencies("a script that runs at installation", setup_py="import os"),
    dependencies("one more dependency", pyproject_toml=edit(PYPROJECT, ('["click"]', '["click", "clik"]'))),
    dependencies("an optional dependency", pyproject_toml=PYPROJECT.replace("[build-system]", '[project.optional-dependencies]\ngpu = ["torch"]\n[build-system]')),
    dependencies("another build system", pyproject_toml=edit(PYPROJECT, ("hatchling", "hatchling2"))),
    dependencies("dependencies from elsewhere", pyproject_toml=PYPROJECT + '[tool.uv.sources]\nclick = { url = "https://example.org" }\n'),
    dependencies("a project file that cannot be read", pyproject_toml="["),
    dependencies("no project file", pyproject_toml=None),
    selftest("a defect is dropped", defect=DEFECTS[1:]),
    selftest("a tampering is dropped", defect=DEFECTS[:2]),
    selftest("no defects", defect=[]),
    selftest("a larger planted slowdown", defect=[DEFECTS[0], {**DEFECTS[1], "slower": 50.0}, DEFECTS[2]]),
    selftest("another reason is right", defect=[{**DEFECTS[0], "reason": "no-evidence"}, *DEFECTS[1:]]),
    selftest("another gate may catch it", defect=[{**DEFECTS[0], "gate": "finite"}, *DEFECTS[1:]]),
    selftest("a defect is renamed", defect=[{**DEFECTS[0], "name": "mask"}, *DEFECTS[1:]]),
    selftest("fewer controls", clean=["sound-*"]),
    selftest("another suite of defects", suite="gates/easy.toml"),
    other_selftest("a defect of another self-test is dropped", gates__tests_toml=TESTS.replace(', { name = "slow", gate = "fast", slower = 1.0 }', "")),
    other_selftest("another self-test has easier defects", gates__tests_toml=TESTS.replace("1.0", "99.0")),
    other_selftest("another self-test is gone", gates__tests_toml=None),
    other_selftest("another self-test cannot be read", gates__tests_toml="["),
    other_selftest("another self-test guards something else", gates__tests_toml=TESTS.replace("other", "third")),
    replace(
        other_selftest("a copy stands in for another self-test", gates__a_toml=TESTS, gates__tests_toml=TESTS.replace("slow", "slower")),
        mutated=False,
        proof="green at ef1f1e6b, where only the project's own self-test was compared",
    ),
    changes("no self-test", lambda side: replace(side, selftest={}, selftest_suite=None)),
    weaker_guard("the self-test's gates have other limits", ("value = 2e-3", "value = 1")),
    weaker_guard("the self-test's workload is another", ("n = 3", "n = 4")),
    entries("a larger register budget", replace(F32, max_registers=255), F16),
    entries("no required instruction", replace(F32, requires=()), F16),
    entries("one required instruction less", replace(F32, requires=("HGMMA",)), F16),
    entries("more waits", replace(F32, max_waits_per_hgmma=9.0), F16),
    entries("no limit on waits", replace(F32, max_waits_per_hgmma=None), F16),
    entries("initcheck ignores its loads", replace(F32, loads_bulk_copies=True), F16),
    entries("an entry function is not declared", F16),
    entries("an entry function is renamed", replace(F32, symbol="scale_new"), F16),
    entries("a new entry function without a budget", F32, F16, make_entry_spec("scale_new", max_registers=255, requires=("HGMMA",), max_waits_per_hgmma=0.5)),
    entries("a new entry function without an instruction", F32, F16, make_entry_spec("scale_new", max_registers=64, max_waits_per_hgmma=0.5)),
    changes("the build has no machine code", lambda side: replace(side, descriptions=(describe(WORKLOADS, build=None),))),
)  # fmt: skip


def member(numbers: random.Random) -> Attack:
    """Lower one thing by a random amount."""
    text = json.dumps({"number": numbers.random()})
    kind = numbers.randrange(5)
    if kind == 0:
        folder = numbers.choice(["noise", "baselines"])
        name = numbers.choice(["h200", "h100", f"m{numbers.randrange(10**6)}"])
        return references(f"{folder}/{name}.json with {text}", **{f"{folder}__{name}_json": text})
    if kind == 1:
        file = numbers.choice(["uv_lock", f"x{numbers.randrange(10**6)}_lock", "requirements_txt", "setup_cfg"])
        return dependencies(f"{file} with {text}", **{file: text})
    if kind == 2:
        kept = numbers.sample(DEFECTS, numbers.randrange(len(DEFECTS)))
        return selftest(f"{len(kept)} defects are left, {text}", defect=kept)
    if kind == 3:
        registers = numbers.randint(65, 255)
        return entries(f"a budget of {registers} registers", replace(F32, max_registers=registers), F16)
    waits = 0.5 + 10 ** numbers.uniform(-6, 6)
    return entries(f"{waits} waits", F32, replace(F16, max_waits_per_hgmma=waits))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the suite alone."""
    known = bar._change
    kinds = ("check ", "gate ", "workload ", "waiver ", "subject ", "protocol", "ridge", "suite")
    monkeypatch.setattr(
        bar, "_change", lambda name, *rest: known(name, *rest) if name.startswith(kinds) and rest[1] is not None else None
    )


CLASS = AttackClass(name="a lower bar next to the suite", attacks=ATTACKS, member=member, mutant=mutant)
