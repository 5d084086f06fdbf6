"""Evidence from another machine, other tools or another time."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from evidence_factories import make_device, make_provenance
from judging import GOOD, PLAN, judged

from flashcore_ci.judge import matching
from flashcore_ci.model.suite import Accepts, VersionRange

TOOLS = (("compute-sanitizer", "2026.4.0.0"), ("ncu", "2025.3.1.0"), ("torch", "2.11.0+cu130"))
ACCEPTS = Accepts(
    devices=("NVIDIA H200",),
    driver=VersionRange(first="570", below="600"),
    tools=(
        ("compute-sanitizer", VersionRange(first="2026.4", below="2027")),
        ("ncu", VersionRange(first="2025.1", below="2027")),
        ("torch", VersionRange(first="2.6", below="3")),
    ),
    max_age_days=7.0,
)
NOW = "2026-11-22T12:00:00Z"


def _attack(name: str, **changes: object) -> Attack:
    def attempt(_: Path) -> bool:
        provenance = make_provenance(**{"collected_at": "2026-11-22T11:00:00Z", "tools": TOOLS, **changes})
        report = judged(replace(GOOD, provenance=provenance), plan=replace(PLAN, accepts=ACCEPTS), as_of=NOW, max_age_days=7.0)
        return report.exit_code == 0

    return Attack(name=name, attempt=attempt)


def _tools(**changes: str | None) -> tuple[tuple[str, str], ...]:
    named = {**dict(TOOLS), **{name.replace("_", "-"): version for name, version in changes.items()}}
    return tuple((name, version) for name, version in named.items() if version is not None)


def member(numbers: random.Random) -> Attack:
    """Change one fact of where the evidence is from."""
    number, letter = numbers.randrange(1, 99), numbers.choice("ABCDEFLT")
    version = numbers.choice((f"{number}.{number}", f"{number}x", f"3000.{number}", "", f"v2026.{number}"))
    return numbers.choice(
        (
            _attack("another GPU", device=make_device(name=f"NVIDIA {letter}{number}00")),
            _attack("another driver", device=make_device(driver=f"{numbers.choice((4, 6, 7))}{number:02}.{number}")),
            _attack("another ncu", tools=_tools(ncu=version)),
            _attack("another sanitizer", tools=_tools(compute_sanitizer=version)),
            _attack("the future", collected_at=f"20{27 + number % 70}-01-01T00:00:00Z"),
            _attack("the past", collected_at=f"20{number % 26:02}-01-01T00:00:00Z"),
        )
    )


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every provenance count, as before."""
    monkeypatch.setattr(matching, "refusal", lambda *_, **__: None)


CLASS = AttackClass(
    name="evidence from elsewhere",
    attacks=(
        _attack("another GPU", device=make_device(name="NVIDIA A100-SXM4-80GB")),
        _attack("a GPU whose name begins alike", device=make_device(name="NVIDIA H200 NVL")),
        _attack("a GPU in other letters", device=make_device(name="nvidia h200")),
        _attack("a GPU name with a blank", device=make_device(name="NVIDIA H200 ")),
        _attack("no GPU", device=None),
        _attack("an older driver", device=make_device(driver="535.104.05")),
        _attack("a driver that sorts as text", device=make_device(driver="60.1")),
        _attack("the driver below which it must be", device=make_device(driver="600.0")),
        _attack("a driver that is not a version", device=make_device(driver="580.x")),
        _attack("no driver", device=make_device(driver="")),
        _attack("no tools", tools=()),
        _attack("no sanitizer", tools=_tools(compute_sanitizer=None)),
        _attack("no profiler", tools=_tools(ncu=None)),
        _attack("no torch", tools=_tools(torch=None)),
        _attack("an older sanitizer", tools=_tools(compute_sanitizer="2026.3.9")),
        _attack("a sanitizer of the next year", tools=_tools(compute_sanitizer="2027.0.0")),
        _attack("an older profiler", tools=_tools(ncu="2024.9")),
        _attack("a version with a suffix", tools=_tools(ncu="2025.3-patched")),
        _attack("a version with a line end", tools=_tools(ncu="2025.3\n")),
        _attack("a version in other digits", tools=_tools(ncu="\u0662\u0660\u0662\u0665.3x")),
        _attack("an hour ahead", collected_at="2026-11-22T13:00:00Z"),
        _attack("an hour ahead in another zone", collected_at="2026-11-22T12:00:00-01:00"),
        _attack("years ahead", collected_at="2099-01-01T00:00:00Z"),
        _attack("a day alone that has not ended", collected_at="2026-11-23"),
        _attack("eight days old", collected_at="2026-11-14T11:00:00Z"),
        _attack("years old", collected_at="2020-01-01"),
    ),
    member=member,
    mutant=mutant,
)
