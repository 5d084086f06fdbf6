from __future__ import annotations

import os
import signal

import pytest

from flashcore_ci.adapters import supervised, supervisor


class Control:
    """The gate's end of the socket."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def sendall(self, data: bytes) -> None:
        self.lines.append(data.decode())


def test_the_group_is_signalled_while_its_number_is_still_the_child_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the reap another process could have that number."""
    calls: list[str] = []
    monkeypatch.setattr(supervisor.Reaper, "_receive", lambda _: ([b"true"], {}, b"/"))
    monkeypatch.setattr(supervisor.Reaper, "_start", lambda *_: 7)
    monkeypatch.setattr(supervisor.Reaper, "_has_ended", lambda *_: True)
    monkeypatch.setattr(os, "killpg", lambda pid, number: calls.append(f"signal {pid} {number}"))
    monkeypatch.setattr(os, "waitpid", lambda pid, _: (calls.append(f"reap {pid}"), (pid, 9))[1])
    monkeypatch.setattr(supervisor, "end_all", lambda: calls.append("end all"))
    control = Control()
    supervisor.Reaper(control, (1, 2), 3, forks=False).run()  # type: ignore[arg-type]
    assert calls == [f"signal 7 {signal.SIGKILL.value}", "reap 7", "end all"]
    assert control.lines == ["started 7\n", "ended -9 0\n"]


def test_only_own_children_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(supervisor, "IS_LINUX", True)
    monkeypatch.setattr(supervisor, "children", lambda: iter((9, 8, 7)))
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    supervisor.kill_children({8})
    assert killed == [9, 7]


def test_a_request_keeps_every_byte() -> None:
    text = supervised.request_bytes([b"echo", b"\xff\n"], [b"A=b=c"], b"/tmp/x y", 5)
    assert int.from_bytes(text[: supervisor.LENGTH_BYTES], "big") == len(text) - supervisor.LENGTH_BYTES
    reaper = supervisor.Reaper(None, (1, 2), 3, forks=False)  # type: ignore[arg-type]
    parts = iter((text[: supervisor.LENGTH_BYTES], text[supervisor.LENGTH_BYTES :]))
    reaper._read = lambda _: next(parts)  # type: ignore[method-assign]
    assert reaper._receive() == ([b"echo", b"\xff\n"], {b"A": b"b=c"}, b"/tmp/x y")
    assert reaper.limit == 5


def test_nobody_is_the_parent_of_a_number_that_nobody_has() -> None:
    assert supervisor.parent_of(os.getpid()) == os.getppid()
    assert supervisor.parent_of(1 << 30) == 0
