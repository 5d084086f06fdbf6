"""The guard of the unit tests guards."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

ATTEMPTS = {
    "a child": lambda: subprocess.run([sys.executable, "-c", "pass"], check=True),
    "a shell": lambda: os.system("true"),
    "a signal": lambda: os.kill(os.getpid(), 0),
    "a connection": lambda: socket.socket().connect(("127.0.0.1", 9)),
    "a name server": lambda: socket.getaddrinfo("localhost", 9),
    "a nap": lambda: time.sleep(0),
    "the wall clock": lambda: time.time(),  # noqa: PLW0108 - looked up when called
    "the clock": lambda: time.monotonic(),  # noqa: PLW0108 - as above
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_reaching_outside_raises(attempt: str) -> None:
    with pytest.raises(AssertionError, match="a unit test called"):
        ATTEMPTS[attempt]()
