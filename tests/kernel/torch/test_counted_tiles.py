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


@pytest.mark.parametrize(
    ("left", "sq", "chunk"), [(0, 1, 0), (100, 1, 0), (127, 3, 0), (300, 5, 0), (-1, 1, 126), (-1, 5, 126), (40, 5, 100)]
)
def test_the_count_is_that_of_a_list_of_tiles(left: int, sq: int, chunk: int) -> None:
    lengths = [0, 1, 100, 127, 128, 129, 228, 229, 700, 3000]
    expected = 0
    for keys in lengths:
        first = min(
            subject.local.see(keys - sq + row, keys, {"left": left, "right": 0, "chunk": chunk, "causal": True})[0]
            for row in range(sq)
        )
        expected += max(1, sum((tile + 1) * TILE > first for tile in range(-(-keys // TILE))))
    lengths_on_device = torch.tensor(lengths, dtype=torch.int32)
    inputs = {"lengths": lengths_on_device, "q": torch.empty(len(lengths), sq, 4, 64), "left": left, "chunk": chunk}
    assert subject.sequences.count_tiles(inputs).tolist() == [expected]


BY_HAND = {
    "window": ({"sk": 700, "left": 100}, {700: 2, 129: 2, 257: 2, 699: 2}, 22),  # 700 keys: from key 599 on, in two tiles of six
    "chunk": (
        {"sk": 900, "sq": 3, "chunk": 100, "left": -1},
        {900: 2, 899: 2, 129: 2, 257: 2},
        22,
    ),  # from key 800 on, in two of eight
}
"""Rows of gates/feature-defects.toml: tiles of sequences that have more than one. The other 14 of 18 have one, also those without keys."""


@pytest.mark.parametrize("name", BY_HAND)
def test_the_counts_of_the_planted_rows_are_those_by_hand(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    change, tiles, total = BY_HAND[name]
    monkeypatch.setattr(subject, "DEVICE", "cpu")
    inputs = subject.inputs({**PARAMS, "b": 18, **change}, 1)
    lengths = inputs["lengths"].tolist()
    assert sum(tiles.get(length, 1) for length in lengths) == total
    assert subject.sequences.count_tiles(inputs).tolist() == [total]


@pytest.mark.parametrize("change", [{"left": -1}, {"d": 128}, {"hkv": 4}, {"flash": True}, {"new": 3, "sq": 3}])
def test_what_cannot_be_counted_is_refused(change: dict[str, Any]) -> None:
    subject.problem(PARAMS)
    with pytest.raises(ValueError, match=r"^counted: needs left"):
        subject.problem({**PARAMS, **change})
