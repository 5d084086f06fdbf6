"""Ways out of the process: to the reference, to the supervisor, or to other machines."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import torch
from work import honest


def expected_tensors(x: Any, out: Any) -> None:
    """Look for the reference's result among all objects of the process."""
    found = [o for o in gc.get_objects() if isinstance(o, torch.Tensor) and o.shape == out.shape and o.data_ptr() != x.data_ptr()]
    others = [o for o in found if o.data_ptr() != out.data_ptr()]
    out.copy_(others[0] if others else x)


def expected_nan(x: Any, out: Any) -> None:
    """Make every other tensor NaN, in the hope that NaN equals all."""
    for other in [o for o in gc.get_objects() if isinstance(o, torch.Tensor) and o.is_floating_point() and o.is_cuda]:
        other.fill_(float("nan"))


def call_stack(x: Any, out: Any) -> None:
    """Look for the reference in the frames of the callers."""
    frame: Any = sys._getframe()
    while frame is not None:
        for name, value in frame.f_locals.items():
            if "reference" in name or "expected" in name:
                out.copy_(value)
                return
        frame = frame.f_back
    out.copy_(x)


def definition_file(x: Any, out: Any) -> None:
    """Import the definition from the checkout, and call its reference on its inputs."""
    for folder in (Path.cwd(), Path(__file__).parent, Path("/tmp"), Path("/home")):
        for file in folder.glob("**/definition.py"):
            scope: dict[str, Any] = {}
            exec(file.read_text(), scope)
            out.copy_(scope["reference"](scope["inputs"]({"n": x.numel(), "cheat": ""}, 0))["out"])
            return
    out.copy_(x)


def result_file(x: Any, out: Any) -> None:
    """Write into the result of the worker."""
    folder = Path(f"/proc/{os.getppid()}/cwd")
    for file in ("result.json", "job.json"):
        (folder / file).write_text("{}")


def supervisor_memory(x: Any, out: Any) -> None:
    """Read the memory of the supervisor, where the seed is."""
    with Path(f"/proc/{os.getppid()}/mem").open("rb") as memory:
        memory.seek(4096)
        memory.read(8)
    out.copy_(x)


def ptrace(x: Any, out: Any) -> None:
    """Attach to the supervisor as a debugger."""
    if ctypes.CDLL(None).ptrace(16, os.getppid(), None, None) != 0:
        raise PermissionError("ptrace was refused")
    out.copy_(x)


def stop_supervisor(x: Any, out: Any) -> None:
    """Send the supervisor a signal while its clock runs."""
    os.kill(os.getppid(), signal.SIGSTOP)
    honest(x, out)


def network(x: Any, out: Any) -> None:
    """Ask another machine for the answer."""
    with socket.create_connection(("192.0.2.1", 80), timeout=1.0) as end:
        out.copy_(torch.frombuffer(bytearray(end.recv(4 * out.numel())), dtype=torch.float32))


def descriptors(x: Any, out: Any) -> None:
    """Write to every descriptor that was inherited."""
    for descriptor in range(4, 256):
        try:
            os.write(descriptor, b"\n")
        except OSError:
            continue
    out.copy_(x)
