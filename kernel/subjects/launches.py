"""Launches of the decode subject that differ, and must have the same bits: in their CTAs, or in which sequences share a launch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

CTAS = (0, 1, 7, 61, 131)
WAYS = ("", "ctas", "batch")
PER_SEQUENCE = ("q", "k", "v", "lengths", "page_table", "k_scale", "v_scale", "q_scale", "out", "lse")
Run = Callable[[Mapping[str, Any], Mapping[str, Any]], None]
_turns: dict[str, Iterator[int]] = {}


def run(launch: Run, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch as ``vary`` says. Every call takes the next way, and the first one is the plain call."""
    way = inputs["vary"]
    if not way:
        launch(inputs, outputs)
        return
    turn = next(_turns.setdefault(way, itertools.count()))
    if way == "ctas":
        launch({**inputs, "max_ctas": CTAS[turn % len(CTAS)]}, outputs)
        return
    sequences = len(inputs["q"])
    cut = turn % sequences
    for part in (slice(cut, sequences), slice(cut)):
        if part.stop > (part.start or 0):
            launch(_cut(inputs, part), _cut(outputs, part))


def _cut(tensors: Mapping[str, Any], part: slice) -> dict[str, Any]:
    """Take some sequences of each tensor. Pages belong to all."""
    shared = {"k", "v"} if tensors.get("page_table") is not None else set()
    chosen = [name for name in PER_SEQUENCE if name not in shared and tensors.get(name) is not None]
    return {**tensors, **{name: tensors[name][part] for name in chosen}}
