"""The reference of a windowed decode counts the tiles that hold a visible key, or one after it."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
KERNEL = Path(__file__).parents[3] / "kernel"
TILE = 128


def load() -> ModuleType:
    module = ModuleType("decode_of_tiles")
    module.__file__ = str(KERNEL / "subjects/decode.py")
    SourceFileLoader(module.__name__, module.__file__).exec_module(module)
    return module


subject = load()
PARAMS: dict[str, Any] = {"b": 10, "h": 4, "hkv": 1, "sk": 3000, "d": 64, "lengths": "edges", "counted": True, "left": 100}


@pytest.mark.parametrize(("left", "sq"), [(0, 1), (100, 1), (127, 3), (300, 5)])
def test_the_count_is_that_of_a_list_of_tiles(left: int, sq: int) -> None:
    lengths = [0, 1, 100, 127, 128, 129, 228, 229, 700, 3000]
    expected = 0
    for keys in lengths:
        first = min(
            subject.local.see(keys - sq + row, keys, {"left": left, "right": 0, "chunk": 0, "causal": True})[0]
            for row in range(sq)
        )
        expected += max(1, sum((tile + 1) * TILE > first for tile in range(-(-keys // TILE))))
    inputs = {"lengths": torch.tensor(lengths, dtype=torch.int32), "q": torch.empty(len(lengths), sq, 4, 64), "left": left}
    assert subject.sequences.count_tiles(inputs).tolist() == [expected]


@pytest.mark.parametrize("change", [{"left": -1}, {"d": 128}, {"hkv": 4}, {"flash": True}, {"new": 3, "sq": 3}])
def test_what_cannot_be_counted_is_refused(change: dict[str, Any]) -> None:
    subject.problem(PARAMS)
    with pytest.raises(ValueError, match=r"^counted: needs left"):
        subject.problem({**PARAMS, **change})
