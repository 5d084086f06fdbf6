from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator

import pytest

from flashcore_ci.adapters import process
from flashcore_ci.cli import signals


class Calls:
    """What children were told, in order."""

    def __init__(self) -> None:
        self._told: queue.Queue[str] = queue.Queue()
        self.any = False
        self.by: threading.Thread | None = None

    def stop_all(self, *, kill: bool) -> None:
        self.any = True
        self.by = threading.current_thread()
        self._told.put("kill" if kill else "stop")

    def next(self) -> str:
        return self._told.get(timeout=5)

    def none_left(self) -> bool:
        return self._told.empty()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    monkeypatch.setattr(process, "stop_all", calls.stop_all)
    monkeypatch.setattr(process, "stopping", lambda: calls.any)
    return calls


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Begin with the defaults: a process in a shell's background ignores SIGINT, which the gate respects."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in signals.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", signals.SIGNALS)
def test_the_first_signal_stops_children_the_second_kills_them_and_neither_raises(calls: Calls, number: signal.Signals) -> None:
    with signals.graceful():
        signal.raise_signal(number)
        assert calls.next() == "stop"
        signal.raise_signal(number)
        assert calls.next() == "kill"
    assert calls.none_left()


def test_a_signal_is_acted_upon_while_the_main_thread_sleeps(calls: Calls) -> None:
    """One that another thread was given does not wake it, and Python's own handlers wait until it does wake."""
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    assert other.ident is not None
    later = threading.Timer(0.1, signal.pthread_kill, (other.ident, signal.SIGTERM))
    try:
        with signals.graceful():
            later.start()
            assert calls.next() == "stop"
            assert calls.by is not threading.main_thread(), "which came to it when its sleep was over"
    finally:
        over.set()
        other.join()


@pytest.mark.parametrize("number", signals.SIGNALS)
def test_a_signal_while_a_stopped_run_says_goodbye_changes_nothing(calls: Calls, number: signal.Signals) -> None:
    with signals.graceful():
        signal.raise_signal(number)
        assert calls.next() == "stop"
    signal.raise_signal(number)
    assert calls.none_left()


def test_another_signal_is_none_of_its_business(calls: Calls) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with signals.graceful():
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert calls.none_left()


def test_nohup_is_respected(calls: Calls) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.graceful():
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert calls.none_left()


def test_what_signals_did_before_is_restored() -> None:
    before = [signal.getsignal(number) for number in signals.SIGNALS]
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    with pytest.raises(ZeroDivisionError), signals.graceful():
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in signals.SIGNALS] == before
    assert signal.set_wakeup_fd(-1) == descriptor
