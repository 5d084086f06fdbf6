"""A repository on two branches, and a machine whose GPU takes the times that a test gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import tool_server
from replayed import FAKES, ROOT, valid
from repository import COMMAND, Repository

DEVICE = {
    "name": "NVIDIA H200",
    "uuid": "GPU-1",
    "driver": "580.159.04",
    "compute_capability": "9.0",
    "multiprocessors": 132,
    "memory": 150754820096,
    "l2": 62914560,
}
GATE = """
[[gate]]
id = "no-slower"
title = "no slower than the base"
evidence = "comparison"
metric = "slowdown/primary"
statistic = "slowdown"
rule = "<="
limits = [{ value = 0.3, unit = "%" }]
why = "a merge must not make a kernel slower"
owner = "tests"
"""


class Bench:
    """A repository on ``main``, a topic with a changed kernel, and a machine whose GPU takes ``base`` and ``head`` megacycles."""

    def __init__(self, folder: Path, repository: Path, environment: dict[str, str]) -> None:
        self.recording = folder / "recording"
        self.recording.mkdir()
        (self.recording / "recording.json").write_text(json.dumps({"device": DEVICE, "users": []}))
        self.times: dict[str, Any] = {"base": 1.0, "head": 1.0}
        python = folder / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -E -S "{FAKES / "timer.py"}" "$@"\n', encoding="utf-8")
        python.chmod(0o755)
        machine = {
            "PYTHONPATH": f"{FAKES / 'site'}:{ROOT}",
            "RECORDING": str(self.recording),
            "FLASHCORE_CI_PYTHON": str(python),
            "FLASHCORE_CI_LOCK_DIR": str(folder / "locks"),
        }
        self.repository = Repository(repository, {**environment, **machine})
        suite = self.repository.folder / "gates/hopper.toml"
        text = suite.read_text().replace('collect = ["correctness"]', 'roof = "compute"\ncollect = ["correctness", "comparison"]')
        suite.write_text(text + GATE)
        self.repository.commit("a suite that compares")
        self.repository.git("switch", "--quiet", "--create", "topic")

    def change(self) -> None:
        self.repository.edit("kernel/twice.cu", "2.0f * x[i]", "2.0f * x[i] + 1.0f")
        self.repository.commit("another instruction")

    def write_times(self) -> None:
        (self.recording / "times.json").write_text(json.dumps(self.times))

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        self.write_times()
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.repository.folder,
            env=self.repository.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str, out: str = "runs/compare") -> tuple[int, dict[str, Any], str]:
        """Exit code, the report, and what was said on standard error."""
        self.write_times()
        arguments = (*arguments, "--out", out)
        done = tool_server.run([*arguments], cwd=self.repository.folder, env=self.repository.environment)
        return self.reported(done.returncode, done.stderr, out)

    def ended(self, child: subprocess.Popen[str], out: str) -> tuple[int, dict[str, Any], str]:
        _, said = child.communicate(timeout=300)
        return self.reported(child.returncode, said, out)

    def reported(self, status: int, said: str, out: str) -> tuple[int, dict[str, Any], str]:
        assert "Traceback" not in said
        folder = self.repository.folder / out
        if (folder / "report.json").exists():
            valid(folder)
            return status, json.loads((folder / "report.json").read_text()), said
        return status, {}, said

    @property
    def timed(self) -> list[str]:
        """The processes that timed, in their order."""
        file = self.recording / "timed"
        return file.read_text().split() if file.exists() else []
