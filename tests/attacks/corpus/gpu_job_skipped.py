"""A change that could alter a measurement, and is taken for one that needs no GPU."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import changing
import pytest
from attacking import Attack, AttackClass
from evidence_factories import good_evidence, make_provenance
from factories import make_plan

from flashcore_ci import __version__
from flashcore_ci.adapters import git, worktree
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import Evidence, Shard
from flashcore_ci.model.plan import Plan
from flashcore_ci.run import changed_files
from flashcore_ci.run.base import measured
from flashcore_ci.store.run import Run

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
BARE = make_plan()
SPEC = BARE.descriptions[0].build
assert SPEC is not None
COMPILED = replace(SPEC, compile=replace(SPEC.compile, architectures=("sm_90a",)))
PLAN = replace(BARE, descriptions=(replace(BARE.descriptions[0], build=COMPILED),))
JIT = replace(BARE, descriptions=(replace(BARE.descriptions[0], build=None),))
EVIDENCE = replace(good_evidence(BARE), provenance=make_provenance(version=__version__, commit="1" * 40, dirty=False))


def _files(name: str) -> Attack:
    """Commit this kind of change."""
    return Attack(name=name, attempt=lambda _: not changing.found(changing.STARTS_GPU[name][0]))


def _shard(index: int) -> Shard:
    return Shard(index=index, count=2, plan="f" * 64, units=(), parts=("f" * 64,) * 2)


def _text(name: str, file: str, before: str, after: str, plan: Plan = PLAN) -> Attack:
    """Change a covered file in what looks like a comment."""

    def attempt(folder: Path) -> bool:
        description = plan.descriptions[0]
        path = description.file if file == "subject" else COMPILED.entries[0].source
        files = {description.file: "A = 1\n", path: before}
        return changing.code_change(folder, files, {**files, path: after}, plan, ()) is None

    return Attack(name=name, attempt=attempt)


def _run(
    name: str, change: Callable[[Evidence], Evidence], *, invocation: str = "https://github.com/a/b/actions/runs/1", **run: Any
) -> Attack:
    """Offer evidence that is no measurement of the base."""

    def attempt(_: Path) -> bool:
        return not measured.refusal(Run(plan=BARE, evidence=change(EVIDENCE), **run), invocation)

    return Attack(name=name, attempt=attempt)


def _provenance(**changes: Any) -> Callable[[Evidence], Evidence]:
    return lambda evidence: replace(evidence, provenance=replace(evidence.provenance, **changes))


def _git(folder: Path, *arguments: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    argv = ["git", *AUTHOR, *arguments]
    return subprocess.run(argv, cwd=folder, env=env, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def _replaced(folder: Path) -> bool:
    """Put the measured commit in the place of the changed one: git then shows no difference."""
    _git(folder, "init", "--quiet")
    for text in ("int a;\n", "int b;\n"):
        (folder / "a.cu").write_text(text)
        _git(folder, "add", "a.cu")
        _git(folder, "commit", "--quiet", "--message=a")
    first, second = _git(folder, "rev-parse", "HEAD~"), _git(folder, "rev-parse", "HEAD")
    _git(folder, "replace", second, first)
    try:
        trees = [git.files_of(folder, commit, logs=folder / "logs") for commit in (first, second)]
    except CannotCollectError:
        return False
    return trees[0] == trees[1]


KINDS = (".py", ".cu", ".h", ".so", ".pth", ".json", ".toml", ".txt", ".MD", ".md.py", ".yml", ".cfg", ".pyc", "", ".lock")
FOLDERS = (
    "",
    "kernel/",
    "kernel/subjects/",
    "gates/",
    "gates/noise/",
    "flashcore_ci/worker/",
    ".github/",
    "docs/",
    "tests/",
    "new/",
)


def member(numbers: random.Random) -> Attack:
    """Commit a new file of any kind but documentation, or any file as a link, executable or submodule."""
    path = f"{numbers.choice(FOLDERS)}n{numbers.randrange(99)}{numbers.choice(KINDS)}"
    if numbers.random() < 0.6:
        return Attack(name=f"a new {path}", attempt=lambda _: not changing.found(changing.edited(path)))
    name, mode = numbers.choice(changing.FILES), numbers.choice(("120000", "160000", "100755", "100664"))
    return Attack(name=f"{name} with mode {mode}", attempt=lambda _: not changing.found(changing.as_mode(name, mode)))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe that only what git calls a change of a kernel counts, and that any evidence is good."""
    monkeypatch.setattr(changed_files, "changes", lambda *_: iter(()))
    monkeypatch.setattr(changed_files, "code_change", lambda *_: None)
    monkeypatch.setattr(measured, "refusal", lambda *_: "")
    monkeypatch.setattr(git, "REAL_OBJECTS", {})
    monkeypatch.setattr(worktree, "is_tree_of", lambda *_: True)


CLASS = AttackClass(
    name="a GPU job that is skipped",
    attacks=(
        *map(_files, changing.STARTS_GPU),
        _text("a comment line moves __LINE__", "kernel", "int a = __LINE__;\n", "// why\nint a = __LINE__;\n"),
        _text("a comment that ends in a backslash", "kernel", "// a\nint a;\n", "// a \\\nint a;\n"),
        _text("a comment in a string", "kernel", 'auto a = "x";\n', 'auto a = "// x";\n'),
        _text("a raw string", "kernel", 'auto a = R"(x)";\n', 'auto a = R"( x)";\n'),
        _text("a blank between plus signs", "kernel", "int a = b ++ + c;\n", "int a = b + ++ c;\n"),
        _text("a directive that a comment hid", "kernel", "/* x */ int a;\n", "#define int long\nint a;\n"),
        _text("another header", "kernel", '#include "a.h"\n', '#include "b.h"\n'),
        _text("a comment of a subject", "subject", "A = 1\n", "A = 1  # why\n"),
        _text("a docstring", "subject", '"""a"""\nA = 1\n', '"""b"""\nA = 1\n'),
        _text("other indentation", "subject", "if 1:\n    A = 1\n    B = 1\n", "if 1:\n    A = 1\nB = 1\n"),
        _text("an encoding", "subject", "A = 1\n", "# -*- coding: utf-7 -*-\nA = 1\n"),
        _text("a comment moves lines that the code counts", "subject", "import inspect\nA = inspect.currentframe().f_lineno\n", "import inspect\n# why\nA = inspect.currentframe().f_lineno\n"),
        _text("a comment of a kernel that is compiled when it runs", "subject", "A = 1\n", "A = 1  # why\n", JIT),
        _run("evidence of a checkout with changes", _provenance(dirty=True)),
        _run("evidence without a GPU", _provenance(device=None)),
        _run("evidence of another version", _provenance(version="0.0.1")),
        _run("evidence of one shard", lambda evidence: replace(evidence, shard=_shard(1))),
        _run("evidence that was merged without signatures", lambda evidence: replace(evidence, shard=_shard(0))),
        _run("evidence of the first schema", lambda evidence: evidence, is_v1=True),
        _run("evidence of no workflow run: the base itself was skipped", lambda evidence: evidence, invocation=""),
        Attack(name="a commit that a replace ref hides", attempt=_replaced),
    ),
    member=member,
    mutant=mutant,
)  # fmt: skip
