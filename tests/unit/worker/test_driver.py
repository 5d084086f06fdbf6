"""Calls of the CUDA driver, on one that only remembers them."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.worker import driver


class Remembering:
    """A libcuda.so.1, and the C library."""

    def __init__(self, status: int = 0) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._status = status
        self.usleep = ctypes.CFUNCTYPE(None)(lambda: None)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, *(getattr(one, "value", one) for one in arguments)))
            return self._status if name == "cuStreamWaitEvent" else 0

        return call


def hold(monkeypatch: pytest.MonkeyPatch, library: Remembering) -> driver.Hold:
    monkeypatch.setattr(driver, "ctypes", SimpleNamespace(**{**vars(ctypes), "CDLL": lambda _: library}))
    monkeypatch.setattr(driver, "_current_stream", lambda: ctypes.c_void_p(7))
    return driver.Hold()


def test_a_hold_sleeps_on_a_stream_of_its_own_and_lets_torchs_stream_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Remembering()
    held = hold(monkeypatch, library)
    held(10_000)
    names = [call[0] for call in library.calls]
    assert names == ["cuStreamCreate", "cuEventCreate", "cuLaunchHostFunc", "cuEventRecord", "cuStreamWaitEvent"]
    (_, _, function, microseconds), (_, event, _), (_, waiting, awaited, _) = library.calls[2:]
    assert function == ctypes.cast(library.usleep, ctypes.c_void_p).value
    assert (microseconds, waiting) == (10_000, 7)
    assert event == awaited


def test_a_driver_that_cannot_hold_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    held = hold(monkeypatch, Remembering(status=801))
    with pytest.raises(driver.DriverError, match="cuStreamWaitEvent returned 801"):
        held(1)


def test_the_queue_alternates_between_two_streams_that_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    library, launched = Remembering(), []
    monkeypatch.setattr(driver, "_current_stream", lambda: ctypes.c_void_p(7))
    made: Any = object.__new__(driver.Driver)
    made._cuda, made._events, made._beside, made._filling = library, {}, ctypes.c_void_p(9), 528
    made._launch = lambda name, *given, stream: launched.append((stream and stream.value, [one.value for one in given[2:]]))
    made.fill_often(3, 4_000, SimpleNamespace(data_ptr=lambda: 64))
    assert launched == [(None, [4_000, 64]), (9, [4_000, 0]), (None, [4_000, 0])]
    recorded = [call[2] for call in library.calls if call[0] == "cuEventRecord"]
    assert recorded == [7, 9]
    assert [call[1] for call in library.calls if call[0] == "cuStreamWaitEvent"] == [9, 7]
