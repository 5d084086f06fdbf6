"""A machine that has the GPU of a recording: fake tools on PATH, a fake driver, and a worker that repeats what was recorded.

A test that wants something to go wrong alters the recording: one thing at a time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import lxml.etree
import tool_server

from flashcore_ci.build import subjects
from flashcore_ci.build.records import BuildSet, write_builds
from flashcore_ci.build.sources import Sources
from flashcore_ci.collect.describe import describe
from flashcore_ci.run.reports import FILES
from flashcore_ci.store import bundle
from flashcore_ci.store.run import read_run
from flashcore_ci.suite.loader import load

ROOT = Path(__file__).parents[2]
FAKES = ROOT / "tests/functional/fakes"
RECORDINGS = ROOT / "tests/recordings/runs"
COMMAND = (sys.executable, "-m", "flashcore_ci.cli.main")
SUITE = "gates/defects.toml"
PATIENT = "gates/patient.toml"
"""The same suite with the limits that ship: for a test in which a worker waits for it."""
HANG_SECONDS = {"correctness": 3, "sanitizer": 15}
"""Enough for every fake that ends, on a busy machine too."""

CORRECTNESS = ("max-diff", "error-ratio", "finite", "repeatable")
SANITIZERS = ("memcheck", "racecheck", "synccheck", "initcheck")
PROFILE = ("sol-dram", "sol-sm")
SPEED = (*PROFILE, "stability")
UNBUILT = {"broken-n4", "one-stage-q64", "unnamed-entry-n4"}

JUNIT = lxml.etree.XMLSchema(lxml.etree.parse(ROOT / "tests/schemas/junit.xsd"))
REPORT = json.loads((ROOT / "docs/schemas/report-v1.json").read_text(encoding="utf-8"))

Verdicts = dict[tuple[str, str], tuple[str, str]]


def checkout(folder: Path) -> Path:
    """The planted defects and their suite, with less patience for the one that hangs."""
    shutil.copytree(ROOT / "kernel", folder / "kernel", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "gates").mkdir()
    text = (ROOT / SUITE).read_text(encoding="utf-8")
    impatient, found = re.subn(
        r"^(correctness|sanitizer) = \d+$", lambda at: f"{at[1]} = {HANG_SECONDS[at[1]]}", text, flags=re.MULTILINE
    )
    assert found == len(HANG_SECONDS)
    (folder / SUITE).write_text(impatient, encoding="utf-8")
    (folder / PATIENT).write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "gates/waivers.toml", folder / "gates")
    return folder


def place_builds(folder: Path, scratch: Path, *, run: Path = RECORDINGS / "defects.tar.xz", suite_file: str = SUITE) -> None:
    """Write the builds of a recorded run as this checkout's, with libraries that are never loaded."""
    recorded = read_run(run).evidence.builds
    suite = load(folder / suite_file, root=folder)
    descriptions = describe(suite, root=folder, python=Path(sys.executable), scratch=scratch)
    empty = hashlib.sha256(b"").hexdigest()
    builds = tuple(replace(build, library_digest=empty if build.library else "") for build in recorded)
    for build in builds:
        if build.library:
            (folder / "build" / build.library).parent.mkdir(parents=True)
            (folder / "build" / build.library).touch()
    sources = subjects._source_digests(descriptions, Sources(folder))
    write_builds(folder / "build", BuildSet(builds=builds, sources=sources))


class Machine:
    """``folder`` holds the machine, ``checkout`` the code, with its binaries in ``build``.

    ``prefix`` is put before the tool's command line.
    """

    def __init__(self, folder: Path, checkout: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.checkout = folder, checkout
        self.recording = folder / "recording"
        for name, data in bundle.unpack(RECORDINGS / "defects.tar.xz").items():
            (self.recording / name).parent.mkdir(parents=True, exist_ok=True)
            (self.recording / name).write_bytes(data)
        evidence = json.loads((self.recording / "evidence.json").read_bytes())
        self.content: dict[str, Any] = {
            **json.loads((RECORDINGS / "defects.json").read_bytes()),
            "device": evidence["provenance"]["device"],
            "users": [],
        }
        self.prefix: tuple[str, ...] = ()
        self.suite = SUITE
        self.tools = folder / "bin"
        self.tools.mkdir()
        for name in ("python", "compute-sanitizer", "ncu"):
            self._launcher(name)
        described = checkout.with_name(f"{checkout.name}-described")
        described.mkdir(exist_ok=True)
        self.environment = {
            **environment,
            "PATH": f"{self.tools}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": f"{FAKES / 'site'}:{ROOT}",
            "RECORDING": str(self.recording),
            "DESCRIBED": str(described),
            "FLASHCORE_CI_PYTHON": str(self.tools / "python"),
            "FLASHCORE_CI_LOCK_DIR": str(folder / "locks"),
        }

    def _launcher(self, name: str) -> None:
        file = self.tools / name
        file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -E -S "{FAKES / name}.py" "$@"\n', encoding="utf-8")
        file.chmod(0o755)

    # --- The recording -------------------------------------------------------------------------------------------------

    def processes(self, name: str) -> list[dict[str, Any]]:
        """The recorded processes of this name; altering them alters what the machine does."""
        found = [process for process in self.content["processes"] if process["name"] == name]
        assert found, f"the recording has no process {name}"
        return found

    def together(self, name: str) -> dict[str, Any]:
        """The process of this name that had the most workloads."""
        return max(self.processes(name), key=lambda process: len(process["workloads"]))

    def shared(self, name: str) -> list[dict[str, Any]]:
        """The processes of this name that had several workloads."""
        return [process for process in self.processes(name) if len(process["workloads"]) > 1]

    def logs(self, check: str) -> list[Path]:
        """The logs of one check of the sanitizer."""
        return sorted((self.recording / "artifacts/sanitizer").glob(f"{check}*.log"))

    @property
    def report(self) -> Path:
        """ncu's report."""
        return self.recording / "artifacts/profile/report-0.ncu-rep"

    @property
    def recorded(self) -> Verdicts:
        """What the recorded run led to."""
        return {(gate, target): (outcome, code) for gate, target, outcome, code in self.content["verdicts"]}

    @property
    def unknown(self) -> str:
        """The calls to the fakes that were never recorded."""
        file = self.recording / "unknown"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    # --- The tool ------------------------------------------------------------------------------------------------------

    def argv(self, *arguments: str, out: str = "run") -> list[str]:
        """The command line of a live gate; ``arguments`` are added."""
        fixed = ("--suite", self.suite, "--live", "--build", "build", "--toolchain", "system")
        return [*self.prefix, *COMMAND, "gate", *fixed, "--out", str(self.folder / out), *arguments]

    def _write_recording(self) -> None:
        (self.recording / "recording.json").write_text(json.dumps(self.content), encoding="utf-8")

    def start(self, *arguments: str, out: str = "run") -> subprocess.Popen[str]:
        """A live gate that runs now."""
        self._write_recording()
        argv = self.argv(*arguments, out=out)
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, cwd=self.checkout, env=self.environment, stdout=pipe, stderr=pipe, text=True)

    def gate(self, *arguments: str, out: str = "run") -> subprocess.CompletedProcess[str]:
        """A live gate to its end."""
        if not self.prefix:
            self._write_recording()
            return tool_server.run(self.argv(*arguments, out=out)[len(COMMAND) :], cwd=self.checkout, env=self.environment)
        tool = self.start(*arguments, out=out)
        output, errors = tool.communicate(timeout=600)
        return subprocess.CompletedProcess(tool.args, tool.returncode, output, errors)

    def judge(self, run: str, out: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Judge a run again, where there is no GPU."""
        fixed = ["judge", str(self.folder / run), "--suite", self.suite, "--out", str(self.folder / out)]
        return tool_server.run([*fixed, *arguments], cwd=self.checkout, env={**self.environment, "PYTHONPATH": str(ROOT)})

    def verdicts(self, out: str = "run") -> Verdicts:
        """What report.json says."""
        report = json.loads((self.folder / out / "report.json").read_text(encoding="utf-8"))
        return {(v["gate"], v["target"]): (v["outcome"], v["reason"]["code"]) for v in report["verdicts"]}

    # --- Its processes -------------------------------------------------------------------------------------------------

    def wait_until_waiting(self, tool: subprocess.Popen[str]) -> None:
        """Wait until the worker that must wait does so."""
        deadline = time.monotonic() + 300
        while not (self.recording / "waiting").exists():
            assert tool.poll() is None, tool.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def survivors(self) -> list[int]:
        """The fakes that still run."""
        noted = self.recording / "pids"
        pids = [int(line) for line in noted.read_text(encoding="ascii").split()] if noted.exists() else []
        return [pid for pid in pids if alive(pid)]

    def end(self) -> None:
        """End the processes of a killed gate: tools wait for workers, and some workers never end."""
        deadline = time.monotonic() + 60
        while pids := self.survivors():
            assert time.monotonic() < deadline, pids
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


def only(*gates: str) -> list[str]:
    """Options that ask only these gates."""
    return [argument for gate in gates for argument in ("--only", gate)]


def of(verdicts: Verdicts, *gates: str) -> Verdicts:
    """The verdicts of these gates."""
    return {check: verdict for check, verdict in verdicts.items() if check[0] in gates}


def once_green(machine: Machine, gate: str) -> set[tuple[str, str]]:
    """What has become of everything that this gate let pass when it was recorded."""
    return {verdict for check, verdict in of(machine.verdicts(), gate).items() if machine.recorded[check][0] == "PASS"}


def all_are(verdicts: Verdicts, outcome: str, code: str) -> bool:
    """Whether there are verdicts and each is this one."""
    return bool(verdicts) and set(verdicts.values()) == {(outcome, code)}


def valid(folder: Path, *, files: Iterable[str] = FILES) -> None:
    """The reports in ``folder`` are what their readers expect, and none of these is missing."""
    assert [name for name in files if not (folder / name).stat().st_size] == []
    JUNIT.assertValid(lxml.etree.parse(folder / "junit.xml"))
    jsonschema.validate(json.loads((folder / "report.json").read_text(encoding="utf-8")), REPORT)


def alive(pid: int) -> bool:
    """Tell whether the process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def environ() -> dict[str, str]:
    """The environment of a log: no terminal, no colours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST") and name != "FORCE_COLOR"}
    return {**kept, "NO_COLOR": "1"}
