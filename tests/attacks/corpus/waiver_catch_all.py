"""A waiver for one sanitizer finding that hides another bug."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from judging import RED, judged, only
from suite_texts import WAIVER, WHOLE

from flashcore_ci.judge import waivers
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.verdict import Outcome
from flashcore_ci.suite import check, loader

KNOWN = Finding(tool="initcheck", message="Uninitialized read of size 4", kernel="axpy", file="kernel/axpy.cu", line=7)
OTHER = Finding(tool="initcheck", message="Invalid write of size 16", kernel="gemm", file="kernel/gemm.cu", line=31)
VERDICT = only(judged(RED), "finite")
WORDS = ("gemm", "softmax", "Invalid", "kernel/x.cu", "void f<int>", "Race")


def _hides(folder: Path, name: str, findings: tuple[Finding, ...], count: float | None = None) -> bool:
    (folder / "scale.py").write_text("from elsewhere import *\n")
    (folder / "waivers.toml").write_text(f"{WAIVER}finding = {name!r}\n")
    (folder / "suite.toml").write_text(WHOLE)
    try:
        (waiver,) = loader.load(folder / "suite.toml", root=folder).waivers
    except SuiteError:
        return False
    total = sum(finding.count for finding in findings) if count is None else count
    verdict = replace(VERDICT, target="big-1", findings=findings, reading=Measured(value=float(total), unit="count"))
    return waivers.apply_waivers(verdict, (waiver,), waivers.day_of("2026-11-22")).outcome is Outcome.WAIVED


def _attack(name: str, *findings: Finding) -> Attack:
    found = findings or (KNOWN, OTHER)
    title = f"{name} over {' and '.join(f'{f.kernel} {f.file}:{f.line} {f.message}' for f in found)}"
    return Attack(name=title, attempt=lambda folder: _hides(folder, name, found))


CATCH_ALL = (
    "*",
    "**",
    "?*",
    "*?",
    "* *",
    "*:*",
    "* *:* *",
    "*e*",
    "[!_]*",
    "[a-z]*",
    "* kernel/*.cu:* * of size *",
    "*[0-9]",
    "*kernel*",
)
ONE_PART = (
    ("* kernel/axpy.cu:7 Uninitialized read of size 4", {"kernel": "gemm"}),
    ("ax* kernel/axpy.cu:7 Uninitialized read of size 4", {"kernel": "axes"}),
    ("axpy *:7 Uninitialized read of size 4", {"file": "kernel/gemm.cu"}),
    ("axpy kernel/*.cu:7 Uninitialized read of size 4", {"file": "kernel/gemm.cu"}),
    ("axpy kernel/axpy.cu:7*", {"line": 71}),
    ("axpy kernel/axpy.cu:7 *", {"message": "Invalid write of size 16"}),
    ("axpy kernel/axpy.cu:7 Un*", {"message": "Unaligned write of size 16"}),
    ("axpy kernel/axpy.cu:[0-9]* Uninitialized read of size 4", {"line": 31}),
)  # fmt: skip


def member(numbers: random.Random) -> Attack:
    """Write a glob that fits the known finding and one that differs in its kernel, file or message."""
    changed = numbers.sample(("kernel", "file", "message"), numbers.randint(1, 3))
    other = replace(KNOWN, **{name: f"{numbers.choice(WORDS)}{numbers.randrange(99)}" for name in changed})
    parts = {"kernel": KNOWN.kernel, "file": KNOWN.file, "line": str(KNOWN.line), "message": KNOWN.message}
    for name in parts:
        if name in changed or numbers.random() < 0.3:
            parts[name] = numbers.choice(("*", "?*", "*?", "**", "[!@]*", "*[!@]"))
    return _attack("{kernel} {file}:{line} {message}".format(**parts), KNOWN, other)


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the name for a glob over the whole line, as before."""

    def matches(pattern: str, finding: Finding) -> bool:
        return fnmatchcase(f"{finding.kernel} {finding.file}:{finding.line} {finding.message}", pattern)

    monkeypatch.setattr(check, "FINDING", re.compile(".*"))
    monkeypatch.setattr(waivers, "_matches", matches)


CLASS = AttackClass(
    name="a waiver hides another finding",
    attacks=(*map(_attack, CATCH_ALL), *(_attack(name, KNOWN, replace(KNOWN, **change)) for name, change in ONE_PART)),
    member=member,
    mutant=mutant,
)
