"""Talk to an untrusted process: bounded messages, each bound to a question."""

from __future__ import annotations

import json
import math
import os
import secrets
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

MAX_MESSAGE = 1 << 16
"""Bytes of an answer. Longer ones are cut by the socket and refused."""
SPIN_SECONDS = 0.1 if (os.cpu_count() or 1) >= 4 else 0.0  # noqa: PLR2004 - where a core is free
"""How long an answer is polled for. Waking up from sleep takes 0.1 ms now and none then, which would be noise of a burst."""


class ProtocolError(Exception):
    """The other side is gone, is late, or did not keep to the protocol."""

    def __init__(self, message: str, *, late: bool = False, closed: bool = False) -> None:
        super().__init__(message)
        self.late, self.closed = late, closed


class Channel:
    """One end of a socket pair. Every question has a token that its answer repeats."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def ask(self, do: str, *, seconds: float, descriptors: Sequence[int] = (), **fields: Any) -> dict[str, Any]:
        """Ask, and return the answer. ProtocolError unless it is for this question."""
        return self.answer(self.post(do, descriptors=descriptors, **fields), seconds=seconds)

    def post(self, do: str, *, descriptors: Sequence[int] = (), **fields: Any) -> str:
        """Ask without waiting. Return the token of the question."""
        if self._readable(0.0):
            raise ProtocolError(f"{len(self._receive())} bytes that nothing asked for")
        token = secrets.token_hex(16)
        question = json.dumps({"token": token, "do": do, **fields}, allow_nan=False).encode()
        try:
            socket.send_fds(self._socket, [question], list(descriptors))
        except OSError as error:
            raise ProtocolError(f"it does not listen: {error.strerror}", closed=True) from None
        return token

    def answer(self, token: str, *, seconds: float) -> dict[str, Any]:
        """Return the answer to a question."""
        if not self._readable(seconds):
            raise ProtocolError(f"no answer within {seconds:g} s", late=True)
        return _checked(self._receive(), token)

    def is_readable(self) -> bool:
        """Tell whether something arrived."""
        return self._readable(0.0)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _readable(self, seconds: float) -> bool:
        watch = select.poll()
        watch.register(self._socket, select.POLLIN)
        began = time.perf_counter()
        spin_until, deadline = began + min(seconds, SPIN_SECONDS), began + seconds
        while time.perf_counter() < spin_until:
            if watch.poll(0):
                return True
        return bool(watch.poll(max(0.0, 1e3 * (deadline - time.perf_counter()))))

    def _receive(self) -> bytes:
        try:
            data, _, flags, _ = self._socket.recvmsg(MAX_MESSAGE)  # without room for descriptors: those sent are closed
        except OSError as error:
            raise ProtocolError(f"it cannot be read: {error.strerror}", closed=True) from None
        if not data:
            raise ProtocolError("it ended", closed=True)
        if flags & socket.MSG_TRUNC:
            raise ProtocolError(f"an answer of more than {MAX_MESSAGE} bytes")
        return data


def number(answer: dict[str, Any], name: str) -> float:
    """Return a finite number above zero from an answer. ProtocolError otherwise."""
    value = answer.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ProtocolError(f"{name} is {str(value)[:40]}, not a number above zero")
    return float(value)


def _checked(data: bytes, token: str) -> dict[str, Any]:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        raise ProtocolError("an answer that is not JSON") from None
    if not isinstance(answer, dict) or answer.get("token") != token:
        raise ProtocolError("an answer to no question")
    return answer
