"""Lines on which a pattern takes quadratic time: a page or a message of 100 KB would hang the gate."""

from __future__ import annotations

import contextlib
import csv
import io
import random
import re
import time
from collections.abc import Callable

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.adapters import ncu_page, nvcc

SECONDS = 0.03
"""Of one core. Linear time is a hundredth of it, and each attack takes a tenth of a second without its fix."""
ENTRY = "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
RANGE = '"<default domain>:'


def takes_long(act: Callable[[], object]) -> bool:
    began = time.process_time()
    with contextlib.suppress(ValueError):
        act()
    return time.process_time() - began > SECONDS


def ptxas(name: str, line: str) -> Attack:
    return Attack(name=f"ptxas: {name}", attempt=lambda _: takes_long(lambda: nvcc.parse_resources(f"{ENTRY}{line}\n")))


def page(ranges: str) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([["ID", "Kernel Name", f"{ncu_page.RANGES}PL_Type"], ["", "", ""], ["0", "k", ranges]])
    return text.getvalue()


def ncu(name: str, ranges: str) -> Attack:
    return Attack(name=f"ncu: {name}", attempt=lambda _: takes_long(lambda: ncu_page.parse(page(ranges))))


def member(numbers: random.Random) -> Attack:
    count = numbers.randrange(6_000, 6_500)
    if numbers.random() < 0.5:
        digit = numbers.choice("0123456789")
        return ptxas(f"{count} times {digit}", digit * count + numbers.choice(["", " byte", " bytes"]))
    return ncu(f"{count // 3} ranges", f"{RANGE}{numbers.choice('abc')}" * (count // 3) + ":none" * numbers.randrange(6))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search without bounds, as before."""
    number = r"(\d+) bytes"
    monkeypatch.setattr(nvcc, "_FRAME", re.compile(rf"{number} stack frame, {number} spill stores, {number} spill loads"))
    monkeypatch.setattr(nvcc, "_SHARED", re.compile(rf"{number} smem"))
    monkeypatch.setattr(nvcc, "_CUMULATIVE", re.compile(rf"{number} cumulative stack size"))
    monkeypatch.setattr(ncu_page, "MAX_RANGES", 1 << 40)


ATTACKS = (
    ptxas("a line of digits", "1" * 6_000),
    ptxas("digits after the registers", f"Used 32 registers, {'7' * 6_000}"),
    ptxas("digits, and the wrong unit", "9" * 6_000 + " byte stack frame"),
    ncu("ranges without an end", RANGE * 500),
    ncu("ranges with five of six parts", f"{RANGE}a{':none' * 5}" * 300),
)
CLASS = AttackClass(name="text that takes quadratic time", attacks=ATTACKS, member=member, mutant=mutant)
