"""Run the workflows' jobs, each on its own machine, with artifacts, signatures and a GPU that replays a recording."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import workflow_runner
from replayed import ROOT
from repository import COMMAND, Repository
from workflow_runner import Runner


class GitHub:
    """Run workflows on a repository. ``gpu`` is the run folder that the GPU runner would write."""

    def __init__(
        self, repository: Repository, folder: Path, *, gpu: Path | None = None, fork: bool = False, api: str = ""
    ) -> None:
        self.repository, self.folder, self.gpu, self.api = repository, folder, gpu, api
        self.commit = repository.git("rev-parse", "HEAD")
        self.artifacts: dict[str, Path] = {}
        self.signed: list[str] = []
        self.uploaded: list[str] = []
        self.runners: dict[str, Runner] = {}
        pull_request = {"number": 7, "head": {"repo": {"fork": fork}}, "base": {"sha": self.commit}}
        self.github: dict[str, Any] = {
            "event_name": "pull_request",
            "event": {"pull_request": pull_request},
            "ref": "refs/pull/7/merge",
            "sha": self.commit,
            "token": "" if fork else "the-token",
            "run_id": "1",
        }
        self.results: dict[str, str] = {}

    def merge_queue(self) -> GitHub:
        """Put the change into the merge queue."""
        self.github |= {
            "event_name": "merge_group",
            "event": {},
            "ref": "refs/heads/gh-readonly-queue/main/pr-7",
            "token": "the-token",
        }
        return self

    def gate(self, *, skip: str | None = None) -> dict[str, str]:
        """Return the results of gate.yml's jobs. ``skip`` is a job that GitHub does not run."""
        for name, job in workflow_runner.workflows()["gate.yml"]["jobs"].items():
            needs = [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
            ok = all(self.results[need] == "success" for need in needs)
            context = {
                "github": self.github,
                "needs": {need: {"result": self.results[need], "outputs": {}} for need in needs},
                "ok": ok,
            }
            if name == skip or not workflow_runner.condition(job.get("if"), context):
                self.results[name] = "skipped"
            elif "uses" in job:
                self.results[name] = "success"  # ci.yml, which has its own test
            else:
                self.results[name] = self.job(name, job, context)
        return self.results

    def job(self, name: str, job: dict[str, Any], context: dict[str, Any]) -> str:
        """Run one job on its own machine."""
        workspace = self.repository.folder.with_name("workspace")  # one path for all jobs, so that nothing is compiled twice
        shutil.rmtree(workspace, ignore_errors=True)
        shutil.copytree(self.repository.folder, workspace, symlinks=True)
        temp = self.folder / f"{name}-temp"
        environment = workflow_runner.environment(temp, workspace, self.commit)
        environment |= {"PYTHONPATH": str(ROOT), "FLASHCORE_CI_PYTHON": sys.executable, "GITHUB_API_URL": self.api}
        environment["PATH"] = f"{self._tools(temp, workspace)}:{environment['PATH']}"
        runner = Runner(workspace, temp, {**context, "runner": {"temp": str(temp)}}, environment, self.actions())
        self.runners[name] = runner
        return runner.run(job)

    def _tools(self, temp: Path, workspace: Path) -> Path:
        """Make ``gh``, python3 and the installed tool. With a GPU, the tool replays a recording."""
        tools = temp / "tools"
        installed = temp / "flashcore-ci/bin"
        for folder in (tools, installed):
            folder.mkdir(parents=True)
        (tools / "python3").symlink_to(sys.executable)
        (temp / "signed").write_text("\n".join(self.signed))
        fake_gh = ROOT / "tests/functional/fakes/gh.py"
        fake_gpu = ROOT / "tests/functional/fakes/measured.py"
        lines = {
            tools / "gh": f'export SIGNED="{temp}/signed" COMMIT={self.commit}\nexec {sys.executable} -E -S {fake_gh} "$@"',
            installed
            / "flashcore-ci": f'export MEASURED="{self.gpu or ""}"\nexec {sys.executable} {fake_gpu} {" ".join(COMMAND)} "$@"',
        }
        for file, line in lines.items():
            file.write_text(f"#!/bin/sh\n{line}\n")
            file.chmod(0o755)
        for extra in ("", "[measure]"):
            (temp / f"flashcore-ci/installed{extra}").touch()
        return tools

    def actions(self) -> dict[str, Callable[[Runner, dict[str, str]], bool]]:
        """Return fakes of third-party actions."""
        return {
            "actions/checkout": lambda runner, given: given["persist-credentials"] == "false",
            "actions/setup-python": lambda runner, given: given["python-version"] == "3.11",
            "actions/upload-artifact": self._upload,
            "actions/download-artifact": self._download,
            "actions/attest-build-provenance": self._attest,
            "github/codeql-action/upload-sarif": self._sarif,
        }

    def _upload(self, runner: Runner, given: dict[str, str]) -> bool:
        files = [file for line in given["path"].split() for file in sorted(runner.workspace.glob(line))]
        folder = self.folder / "artifacts" / given["name"]
        folder.mkdir(parents=True)  # a name that exists is an error on GitHub too
        for file in files:
            shutil.copy(file, folder)
        self.artifacts[given["name"]] = folder
        return bool(files)

    def _download(self, runner: Runner, given: dict[str, str]) -> bool:
        if given["name"] not in self.artifacts:
            return False
        shutil.copytree(self.artifacts[given["name"]], runner.workspace / given["path"])
        return True

    def _attest(self, runner: Runner, given: dict[str, str]) -> bool:
        self.signed.append(hashlib.sha256((runner.workspace / given["subject-path"]).read_bytes()).hexdigest())
        return True

    def _sarif(self, runner: Runner, given: dict[str, str]) -> bool:
        self.uploaded.append(given["sarif_file"])
        return (runner.workspace / given["sarif_file"]).is_file()
