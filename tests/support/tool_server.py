"""Run ``flashcore-ci`` in processes that are forked from one with all imports done.

A command costs half a second of imports, and the tests run hundreds. Each still has a process, an environment and a folder of its
own. Where the start itself is tested, or the environment changes Python, the command starts as it does for a user.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
SITE = ROOT / "tests/functional/fakes/site"
COMMAND = (sys.executable, "-m", "flashcore_ci.cli.main")
PATHS = {str(ROOT), str(SITE)}
CHANGES_PYTHON = ("PYTHON", "LC_", "LANG", "CLOCK_", "COLUMNS")
SIZE_BYTES = 8
SERVER = f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(ROOT)!r}]; import tool_server; tool_server.serve()"


def run(arguments: list[str], *, cwd: Path, env: Mapping[str, str], timeout: float = 600.0) -> subprocess.CompletedProcess[str]:
    """Run one command to its end. TimeoutExpired as ``subprocess.run``."""
    argv = [*COMMAND, *arguments]
    if not can_fork(env):
        return subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=timeout)
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        reader, writer = os.pipe()
        try:
            _send({"arguments": arguments, "cwd": str(cwd), "env": dict(env)}, [stdout.fileno(), stderr.fileno(), writer])
        finally:
            os.close(writer)
        with os.fdopen(reader, "rb", buffering=0) as answers:
            pid = int(answers.readline())
            if not select.select([answers], [], [], timeout)[0]:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(argv, timeout)
            status = int(answers.readline())
        texts = []
        for file in (stdout, stderr):
            file.seek(0)
            texts.append(file.read().decode().replace("\r\n", "\n"))
    return subprocess.CompletedProcess(argv, status, *texts)


def can_fork(env: Mapping[str, str]) -> bool:
    """Tell whether Python would start alike with this environment."""

    def settings(variables: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in variables.items() if name.startswith(CHANGES_PYTHON) and name != "PYTHONPATH"}

    paths = set(env.get("PYTHONPATH", "").split(os.pathsep))
    return str(ROOT) in paths <= PATHS and settings(env) == settings(os.environ)


@functools.cache
def _server() -> socket.socket:
    """Start the server of this process, once. It ends with this process."""
    ours, its = socket.socketpair()
    with its:
        argv, null = [sys.executable, "-c", SERVER, str(its.fileno())], subprocess.DEVNULL
        process = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, pass_fds=[its.fileno()], cwd="/")

    def end() -> None:
        ours.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)

    atexit.register(end)
    return ours


def _send(request: Mapping[str, object], descriptors: list[int]) -> None:
    data = json.dumps(request).encode()
    socket.send_fds(_server(), [len(data).to_bytes(SIZE_BYTES, "big")], descriptors)
    _server().sendall(data)


def serve() -> None:
    """Import every command, then fork one process per request."""
    import gc
    import importlib

    from flashcore_ci.cli import main

    control = socket.socket(fileno=int(sys.argv[1]))
    for name in main.COMMANDS:
        importlib.import_module(f"flashcore_ci.cli.{main.MODULES.get(name, name)}")
    _read_kernels()
    _make_codecs()
    ours = [str(Path(__file__).parent), *PATHS, ""]
    sys.path[:] = [path for path in sys.path if path not in ours]
    gc.freeze()
    while True:
        size, descriptors, _, _ = socket.recv_fds(control, SIZE_BYTES, 3)
        _reap()
        if not size:
            with contextlib.suppress(ChildProcessError):  # their time on the processor counts as ours
                while os.wait():
                    pass
            return
        data = b""
        while len(data) < int.from_bytes(size, "big"):
            data += control.recv(1 << 20)
        if os.fork() == 0:
            control.close()
            _wait_for_command(json.loads(data), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _read_kernels() -> None:
    """Scan the texts that most commands scan: what is known of a text is kept, and a forked process inherits it."""
    from flashcore_ci.build import python_text, tokens

    for path in sorted((ROOT / "kernel").rglob("*.*")):
        reader = python_text if path.suffix == ".py" else tokens if path.suffix in {".cu", ".cuh", ".h", ".cpp"} else None
        if reader is not None:
            text = path.read_text(encoding="utf-8")
            reader.find_problem(text)
            reader.canonical(text)


def _make_codecs() -> None:
    """Import what commands import late, and make the codecs of most records: a third of a short command's time."""
    import importlib

    from flashcore_ci.build import library, objects, records, toolchain
    from flashcore_ci.model import dossier, evidence, plan, verdict
    from flashcore_ci.store import codec, manifest

    for name in ("report.terminal", "run.history", "run.history_reading", "history.database", "history.writing"):
        importlib.import_module(f"flashcore_ci.{name}")
    for record in (
        *(plan.Plan, evidence.Evidence, verdict.Report, dossier.Dossier, manifest.Manifest),
        *(records.BuildSet, objects.CompiledUnit, library.LinkedLibrary, toolchain.ToolVersions),
    ):
        codec._complete(record)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _wait_for_command(request: dict[str, object], stdout: int, stderr: int, answers: int) -> NoReturn:
    pid = os.fork()
    if pid == 0:
        os.close(answers)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.closerange(3, max(stdout, stderr) + 1)
        _become(request)
    os.write(answers, f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: dict[str, object]) -> None:
    from flashcore_ci.cli import main

    arguments, cwd, env = request["arguments"], request["cwd"], request["env"]
    assert isinstance(arguments, list)
    assert isinstance(env, dict)
    os.chdir(str(cwd))
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [str(Path.cwd()), *env["PYTHONPATH"].split(os.pathsep)]
    sys.argv = [main.__file__, *arguments]
    main.main()
