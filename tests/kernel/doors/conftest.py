"""Doors on the CPU of a real PyTorch, over stand-ins for the kernels: ``python -m pytest -m nightly tests/kernel/doors``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

os.environ.setdefault("TRITON_INTERPRET", "1")  # read when the kernel's module is imported
KERNEL = Path(__file__).parents[3] / "kernel"
MEASURED = "2.11"


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Replace the Hopper kernels by PyTorch on the CPU. ``calls`` counts what the doors let through."""
    pytest.importorskip("torch", minversion=MEASURED, reason="install torch, for example torch==2.13.0+cpu")
    monkeypatch.syspath_prepend(str(KERNEL))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.delenv("FLASHCORE_STRICT", raising=False)
    import door_reference
    from flashcore.doors import choice

    calls: list[str] = []
    refused: dict[str, str] = {}

    def find(name: str) -> object:
        def function(*arguments: object, **options: object) -> object:
            if name in refused:
                raise ValueError(refused[name])
            calls.append(name)
            return getattr(door_reference, name)(*arguments, **options)

        return function

    monkeypatch.setattr(choice, "find_hopper", find)
    monkeypatch.setattr(choice, "is_supported", lambda _device: True)
    monkeypatch.setattr(choice, "_call_triton", lambda *_arguments: None)
    choice._logged.clear()
    yield SimpleNamespace(calls=calls, refused=refused, choice=choice, reference=door_reference)
    sys.modules.pop("door_reference", None)
