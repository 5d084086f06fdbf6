"""Fuzz ncu's report reader in another process, because it is a C library that may abort."""

from __future__ import annotations

import contextlib
import lzma
import os
import select
import subprocess
import sys
from pathlib import Path

from flashcore_ci.adapters import ncu
from flashcore_ci.model.reading import Measured

RECORDED = Path(__file__).resolve().parents[2] / "tests/recordings/ncu/two-workloads.ncu-rep.xz"
WORKLOAD, KERNEL = "red-clean", "fault_clean"
SHARES = ("sol/sm", "sol/dram", "sol/tensor", "sol/xu")
LOW = 10.0  # per cent: the recorded kernel stays below, and no damage may raise it above
SECONDS = 20.0
END = b"end\n"
SERVER = """
import sys
from flashcore_ci.adapters import ncu_reader
for line in sys.stdin:
    ncu_reader.main([line.strip()])
    print("end", flush=True)
"""


class DiedError(Exception):
    """The reader aborted or did not return."""


class Reports:
    """A process that reads reports, and is restarted after a report that ends it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "damaged.ncu-rep"
        self._server: subprocess.Popen[bytes] | None = None

    def read(self, data: bytes) -> object:
        """Return the readings of the recorded workload. DiedError as in ``actions``."""
        return ncu.make_readings(self.actions(data), WORKLOAD, (KERNEL,))

    def actions(self, data: bytes) -> tuple[ncu.Action, ...]:
        """Read these bytes as the gate does. DiedError if the reader aborted or did not return."""
        self.file.write_bytes(data)
        output, server = b"", self._running()
        with contextlib.suppress(BrokenPipeError):
            os.write(server.stdin.fileno(), f"{self.file}\n".encode())
        while not output.endswith(END):
            ready, _, _ = select.select([server.stdout], [], [], SECONDS)
            more = os.read(server.stdout.fileno(), 1 << 16) if ready else b""
            if not more:
                self.close()
                raise DiedError(str(server.returncode))
            output += more
        return ncu.parse_actions(output.removesuffix(END).decode())

    def close(self) -> None:
        """End the process."""
        if self._server is not None:
            self._server.kill()
            self._server.communicate()
            self._server = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            argv, pipe = [sys.executable, "-c", SERVER], subprocess.PIPE
            self._server = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        return self._server


def recorded() -> bytes:
    """Return a recorded report."""
    return lzma.decompress(RECORDED.read_bytes())


def wrong(_good: bytes, _damaged: bytes, found: object) -> str | None:
    """Return a complaint if the kernel came out faster than it was."""
    shares = [found[name] for name in SHARES] if isinstance(found, dict) else []
    high = any(isinstance(share, Measured) and share.value >= LOW for share in shares)
    return "a low share became a high one" if high else None
