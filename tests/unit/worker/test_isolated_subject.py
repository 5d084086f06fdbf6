"""A subject whose ``run`` is a candidate's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.worker import isolated_subject
from flashcore_ci.worker.isolated_subject import IsolatedSubject


def test_memory_that_was_not_mapped_is_mapped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped: list[int] = []

    def share(memory: Any, layout: Any, sets: int) -> None:
        mapped.append(layout.bytes)
        if layout.bytes > 100:
            raise ValueError("out of memory")

    memory = SimpleNamespace(bytes=lambda: SimpleNamespace(fill_=lambda _: None), close=lambda: None)
    monkeypatch.setattr(isolated_subject, "SharedMemory", lambda _: memory)
    monkeypatch.setattr(isolated_subject, "Layout", SimpleNamespace(of=lambda inputs, _: inputs))
    subject = object.__new__(IsolatedSubject)
    subject._memory = subject._layout = None
    subject._candidate = SimpleNamespace(share=share, finish=lambda: None)  # type: ignore[assignment]
    small, large = SimpleNamespace(bytes=1), SimpleNamespace(bytes=1000)
    subject._ready(small, {})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="out of memory"):
        subject._ready(large, {})  # type: ignore[arg-type]
    subject._ready(small, {})  # type: ignore[arg-type]
    assert mapped == [1, 1000, 1]
