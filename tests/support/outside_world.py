"""Unit tests touch nothing outside: a process, a socket, a wait or the wall clock raises."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

TEST_TOOLS = frozenset({"hypothesis", "_pytest", "xdist", "execnet", "sqlalchemy"})
"""These time the tests themselves, and the last one its connections."""


class OutsideWorldError(AssertionError):
    """A unit test reached for the world. Pass the thing in, or make it a functional test."""


def _forbid(monkeypatch: pytest.MonkeyPatch, where: object, name: str) -> None:
    real = getattr(where, name)

    def refuse(*args: object, **kwargs: object) -> object:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.split(".")[0] in TEST_TOOLS:
            return real(*args, **kwargs)
        raise OutsideWorldError(f"a unit test called {name}")

    monkeypatch.setattr(where, name, refuse)


@pytest.fixture(autouse=True)
def no_outside_world(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("system", "fork", "posix_spawn", "posix_spawnp", "execv", "execve", "kill", "killpg"):
        _forbid(monkeypatch, os, name)
    _forbid(monkeypatch, subprocess.Popen, "__init__")
    for name in ("connect", "connect_ex", "bind", "sendto"):
        _forbid(monkeypatch, socket.socket, name)
    _forbid(monkeypatch, socket, "getaddrinfo")
    for name in ("sleep", "time", "time_ns", "monotonic"):
        _forbid(monkeypatch, time, name)
