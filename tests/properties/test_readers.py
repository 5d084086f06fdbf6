"""Whatever reaches a reader, it answers or refuses: no traceback, and nothing green that should not be. ``make fuzz`` goes on for longer."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]


def fuzzer() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools/study"))
    spec = importlib.util.spec_from_file_location("fuzz", ROOT / "tools/study/fuzz.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz"] = module
    spec.loader.exec_module(module)
    return module


FUZZ = fuzzer()
REPORTS = FUZZ.Reports(Path("/nonexistent"))
NAMES = tuple(name for name in FUZZ.readers(Path("/nonexistent"), REPORTS) if name != "ncu report")
"""ncu's reports are read by a process of its own: tests/functional damages them."""


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    FUZZ.KEEP = tmp_path_factory.mktemp("kept")
    return FUZZ.readers(tmp_path_factory.mktemp("fuzz"), REPORTS)


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(min_value=0))
def test_damaged_input_is_read_or_refused(readers: dict[str, object], name: str, seed: int) -> None:
    assert FUZZ.fuzz(name, readers[name], 3, seed)[1] == []


@pytest.mark.parametrize("name", NAMES)
@given(data=st.binary(max_size=200))
def test_anything_is_read_or_refused(readers: dict[str, object], name: str, data: bytes) -> None:
    reader = readers[name]
    try:
        found = reader.read(data)
    except reader.promised:
        return
    assert reader.wrong(b"", data, found) is None


def test_the_fuzzer_can_find_something() -> None:
    """A reader that breaks on one letter, one that breaks a promise, and one whose answer is wrong."""
    breaking = FUZZ.Reader(corpus=[b"abc"], read=lambda data: 1 // (b"b" in data))
    assert FUZZ.fuzz("breaking", breaking, 200, 1)[1]
    wrong = FUZZ.Reader(corpus=[b"abc"], read=len, wrong=lambda good, damaged, found: "longer" if found > len(good) else None)
    assert FUZZ.fuzz("wrong", wrong, 200, 1)[1]
    promised = FUZZ.Reader(corpus=[b"abc"], read=lambda data: 1 // (b"b" in data), promised=(ZeroDivisionError,))
    assert FUZZ.fuzz("promised", promised, 200, 1)[1] == []


def test_mutations_change_something() -> None:
    rng = random.Random(7)
    data = b"ERROR SUMMARY: 0 errors"
    assert sum(FUZZ.mutated(data, rng) != data for _ in range(200)) > 150
