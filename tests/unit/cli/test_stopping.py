from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from flashcore_ci.adapters import process
from flashcore_ci.cli import stopping


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    monkeypatch.setattr(process, "stop_all", lambda *, kill: calls.append("kill" if kill else "stop"))
    monkeypatch.setattr(process, "stopping", lambda: bool(calls))
    return calls


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in stopping.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", stopping.SIGNALS)
def test_the_first_signal_stops_children_the_second_kills_them_and_neither_raises(
    stopped: list[str], number: signal.Signals
) -> None:
    with stopping.graceful():
        signal.raise_signal(number)
        assert stopped == ["stop"]
        signal.raise_signal(number)
        assert stopped == ["stop", "kill"]


@pytest.mark.parametrize("number", stopping.SIGNALS)
def test_a_signal_while_a_stopped_run_says_goodbye_changes_nothing(stopped: list[str], number: signal.Signals) -> None:
    with stopping.graceful():
        signal.raise_signal(number)
    signal.raise_signal(number)
    assert stopped == ["stop"]


def test_what_signals_did_before_is_restored() -> None:
    before = [signal.getsignal(number) for number in stopping.SIGNALS]
    with pytest.raises(ZeroDivisionError), stopping.graceful():
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in stopping.SIGNALS] == before
