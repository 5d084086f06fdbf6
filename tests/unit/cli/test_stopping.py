from __future__ import annotations

import signal

import pytest

from flashcore_ci.adapters import process
from flashcore_ci.cli import stopping
from flashcore_ci.model.errors import InterruptedRunError


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    monkeypatch.setattr(process, "stop_all", lambda: calls.append("stop"))
    monkeypatch.setattr(process, "stopping", lambda: bool(calls))
    return calls


@pytest.mark.parametrize("number", stopping.SIGNALS)
def test_the_first_signal_stops_children_and_the_second_ends_the_run(stopped: list[str], number: signal.Signals) -> None:
    with stopping.graceful():
        signal.raise_signal(number)
        assert stopped == ["stop"]
        with pytest.raises(InterruptedRunError, match=number.name):
            signal.raise_signal(number)


def test_what_signals_did_before_is_restored() -> None:
    before = [signal.getsignal(number) for number in stopping.SIGNALS]
    with pytest.raises(ZeroDivisionError), stopping.graceful():
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in stopping.SIGNALS] == before
