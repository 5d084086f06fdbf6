"""A candidate that writes to the supervisor's socket what it was not asked, or not like that."""

from __future__ import annotations

import json
import os
import random
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.worker import channel
from flashcore_ci.worker.channel import MAX_MESSAGE, Channel, ProtocolError

Write = Callable[[socket.socket, str], None]
"""Write to the socket, knowing the token of the question (or of the one before)."""
SECONDS = 0.02
LIE = 0.001


def _make(name: str, *, before: Write | None = None, after: Write | None = None) -> Attack:
    """Make an attack that writes before the question is asked, or after. It fooled the supervisor if a time was accepted."""

    def attempt(_: Path) -> bool:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            supervisor = Channel(mine)
            try:
                old = json.loads(_after(supervisor, theirs))["token"]
                if before is not None:
                    before(theirs, old)
                token = supervisor.post("launch")
                if after is not None:
                    after(theirs, json.loads(theirs.recv(1 << 17))["token"])
                return channel.number(supervisor.answer(token, seconds=SECONDS), "ms") > 0
            except ProtocolError:
                return False
            finally:
                supervisor.close()

    return Attack(name=name, attempt=attempt)


def _after(supervisor: Channel, theirs: socket.socket) -> bytes:
    """Ask and answer one question honestly. Return it."""
    token = supervisor.post("prepare")
    question = theirs.recv(1 << 17)
    theirs.send(json.dumps({"token": token}).encode())
    supervisor.answer(token, seconds=1.0)
    return question


def _say(**fields: Any) -> Write:
    return lambda end, token: end.send(json.dumps({"token": token, **fields}).encode())


def _bytes(text: bytes) -> Write:
    return lambda end, token: end.send(text.replace(b"TOKEN", token.encode()))


def _with_descriptor(end: socket.socket, token: str) -> None:
    descriptor = os.open("/dev/null", os.O_RDONLY)
    socket.send_fds(end, [b'{"token": "other", "ms": 0.001}'], [descriptor])
    os.close(descriptor)


ATTACKS = (
    _make("an answer before the question", before=_say(ms=LIE)),
    _make("an answer with no token before the question", before=_bytes(b'{"ms": 0.001}')),
    _make(
        "the token of the last question",
        before=lambda end, token: None,
        after=lambda end, token: end.send(b'{"token": "old", "ms": 0.001}'),
    ),
    _make("no token", after=_bytes(b'{"ms": 0.001}')),
    _make("an empty token", after=_bytes(b'{"token": "", "ms": 0.001}')),
    _make("the token as a list", after=_bytes(b'{"token": ["TOKEN"], "ms": 0.001}')),
    _make("half of the token", after=lambda end, token: end.send(json.dumps({"token": token[:16], "ms": LIE}).encode())),
    _make(
        "the token in capitals", after=lambda end, token: end.send(json.dumps({"token": token.upper() + "X", "ms": LIE}).encode())
    ),
    _make("a list", after=_bytes(b'[{"token": "TOKEN", "ms": 0.001}]')),
    _make("not JSON", after=_bytes(b'token=TOKEN, "ms": 0.001')),
    _make("two answers in one", after=_bytes(b'{"token": "TOKEN", "ms": 0.001}{"ms": 0.001}')),
    _make(
        "more than an answer may have",
        after=lambda end, token: end.send(b'{"ms": 0.001, "x": "' + b"a" * 2 * MAX_MESSAGE + b'"}'),
    ),
    _make("a hole after the answer", after=_bytes(b'{"token": "TOKEN", "ms": 0.001}\x00')),
    _make("a time of NaN", after=_bytes(b'{"token": "TOKEN", "ms": NaN}')),
    _make("a time of infinity", after=_bytes(b'{"token": "TOKEN", "ms": Infinity}')),
    _make("a time of zero", after=_say(ms=0.0)),
    _make("a time below zero", after=_say(ms=-1.0)),
    _make("a time that is text", after=_say(ms="0.001")),
    _make("a time that is true", after=_say(ms=True)),
    _make("a time in a list", after=_say(ms=[LIE])),
    _make("deep JSON", after=lambda end, token: end.send(b'{"ms": 0.001, "x": ' + b"[" * 20_000)),
    _make("a descriptor", after=_with_descriptor),
    _make("bytes that are no text", after=_bytes(b'\xff\xfe{"ms": 0.001}')),
    _make("many answers in advance", before=lambda end, token: [_say(ms=LIE)(end, token) for _ in range(8)] and None),
)


def member(numbers: random.Random) -> Attack:
    """Draw bytes around a time that looks good, never with the right token."""
    text = json.dumps(
        {"ms": numbers.uniform(1e-6, 1.0), "token": f"{numbers.getrandbits(numbers.choice((8, 64, 128))):x}"}
    ).encode()
    cut = numbers.randrange(len(text) + 1)
    noise = numbers.randbytes(numbers.choice((0, 1, 100)))
    whole = text + noise if numbers.random() < 0.5 else text[:cut] + noise + text
    return _make("noise", before=_bytes(whole)) if numbers.random() < 0.5 else _make("noise", after=_bytes(whole))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the first number that follows the word "ms" anywhere in what comes first."""

    def read(self: Channel, token: str, *, seconds: float) -> dict[str, Any]:
        data = self._socket.recv(MAX_MESSAGE)
        return {"ms": bool(re.search(rb"ms", data))}

    def post(self: Channel, do: str, **_: Any) -> str:
        self._socket.send(json.dumps({"token": "0" * 32, "do": do}).encode())
        return "0" * 32

    monkeypatch.setattr(Channel, "answer", read)
    monkeypatch.setattr(Channel, "post", post)
    monkeypatch.setattr(channel, "number", lambda answer, name: float(answer[name]))


CLASS = AttackClass(name="a candidate that abuses its socket", attacks=ATTACKS, member=member, mutant=mutant)
