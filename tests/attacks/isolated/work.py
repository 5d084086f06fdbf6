"""The honest work of the candidates, and what several cheats use."""

from __future__ import annotations

import sys
from typing import Any

import torch

STEPS = 4
kept: dict[Any, Any] = {}


def honest(x: Any, out: Any) -> None:
    """Do the work."""
    torch.mul(x, 3.0, out=out)
    out.sin_()
    for _ in range(STEPS - 1):
        out.mul_(3.0).sin_()


def replay(key: Any, x: Any, out: Any) -> None:
    if key not in kept:
        kept[key] = torch.empty_like(out)
        honest(x, kept[key])
    out.copy_(kept[key])


def question() -> dict[str, Any]:
    frame: Any = sys._getframe()
    while frame is not None:
        if "question" in frame.f_locals and isinstance(frame.f_locals["question"], dict):
            return dict(frame.f_locals["question"])
        frame = frame.f_back
    return {}


def process_sets() -> list[Any]:
    frame: Any = sys._getframe()
    while frame is not None:
        if hasattr(frame.f_locals.get("self"), "_sets"):
            return list(frame.f_locals["self"]._sets)
        frame = frame.f_back
    return []
