"""Which kernels may run in a launch that correctness looks at."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.model.codes import Code
from flashcore_ci.worker import correctness

FOREIGN = {"decode": "decode", "stream": "stream"}


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what is wrong with a launch that runs these kernels, as the profiler or the subject says."""

    def find_other(*ran: str, entries: tuple[str, ...] = ("forward",), foreign: Any = FOREIGN, is_isolated: bool = False) -> Any:
        launched: list[str] = []

        @contextlib.contextmanager
        def watching() -> Iterator[Callable[[], set[str]]]:
            yield lambda: set(launched)

        monkeypatch.setattr(correctness.kernels_seen, "watching", watching)
        monkeypatch.setattr(correctness, "_run", lambda *_: launched.extend(ran))
        subject = SimpleNamespace(outputs=lambda _: {}, **({"kernels": lambda *_: set(ran)} if is_isolated else {}))
        found = correctness._find_other_kernels(subject, {}, entries, foreign)
        return found and (Code(found["missing"]["code"]), found["missing"]["message"])

    return find_other


@pytest.mark.parametrize("is_isolated", [False, True])
def test_a_kernel_of_another_subject_is_named(find: Callable[..., Any], is_isolated: bool) -> None:
    expected = (Code.FOREIGN_KERNEL, "decode ran, a kernel of subject decode")
    assert find("fill", "forward", "decode", is_isolated=is_isolated) == expected
    assert find("decode", is_isolated=is_isolated) == expected  # it took the place of the planned one
    assert find("fill", "forward", is_isolated=is_isolated) is None


def test_a_subject_that_builds_nothing_is_watched_if_others_build(find: Callable[..., Any]) -> None:
    assert find("triton_kernel", "stream", entries=()) == (Code.FOREIGN_KERNEL, "stream ran, a kernel of subject stream")
    assert find("triton_kernel", entries=()) is None
    assert find("stream", entries=(), foreign={}) is None


def test_a_planned_kernel_must_run_and_the_profiler_must_see_something(find: Callable[..., Any]) -> None:
    assert find("fill") == (Code.KERNEL_NOT_SEEN, "forward never ran")
    assert find()[0] is Code.TOOL_FAILED
