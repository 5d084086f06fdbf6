"""Run the workflows' jobs, each on its own machine, with artifacts, signatures and a GPU that replays a recording."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import workflow_runner
from comment_server import TRUSTED, Comments
from replayed import ROOT
from repository import COMMAND, Repository
from workflow_runner import Runner

REPOSITORY = "flashcore/flashcore-ci"
TRUSTED_COMMIT = "a" * 40
"""The commit of the protected branch whose workflow runs."""


class GitHub:
    """Run workflows on a repository. ``gpu`` is the run folder that the GPU runner would write.

    ``protected`` are the sources of the protected branch: by default those of this project.
    """

    def __init__(
        self, repository: Repository, folder: Path, api: Comments, *, gpu: Path | None = None, fork: bool = False
    ) -> None:
        self.repository, self.folder, self.gpu, self.api = repository, folder, gpu, api
        self.commit = repository.git("rev-parse", "HEAD")
        self.protected = ROOT
        self.artifacts: dict[str, Path] = {}
        self.names: dict[str, str] = {}
        self.signed: dict[str, list[dict[str, Any]]] = {}
        self.uploaded: list[str] = []
        self.runners: dict[str, Runner] = {}
        head = {"sha": self.commit, "repo": {"full_name": "somebody/flashcore-ci" if fork else REPOSITORY, "fork": fork}}
        self.github: dict[str, Any] = {
            "event_name": "pull_request",
            "event": {"pull_request": {"number": 7, "head": head, "base": {"sha": self.commit, "ref": "main"}}},
            "ref": "refs/pull/7/merge",
            "sha": self.commit,
            "token": "the-token",
            "repository": REPOSITORY,
            "run_id": "1",
        }

        self.attempt = 1
        self.is_trusted = not fork
        self.results: dict[str, str] = {}
        self.outputs: dict[str, dict[str, str]] = {}
        if not any(run["id"] == 1 for run in api.runs):
            api.put_run(1, self.commit)

    def merge_queue(self) -> GitHub:
        """Put the change into the merge queue."""
        event = {"merge_group": {"base_sha": self.commit, "base_ref": "refs/heads/main"}}
        self.github |= {"event_name": "merge_group", "event": event, "ref": "refs/heads/gh-readonly-queue/main/pr-7"}
        self.is_trusted = True
        return self

    def gate(self, *, skip: str | None = None) -> dict[str, str]:
        """Return the results of trusted.yml's jobs, as gate.yml calls them. ``skip`` is a job that GitHub does not run."""
        for name, job in workflow_runner.workflows()["trusted.yml"]["jobs"].items():
            needs = [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
            ok = all(self.results[need] == "success" for need in needs)
            context = self.context(needs) | {"ok": ok}
            if name == skip or not workflow_runner.condition(job.get("if"), context):
                self.results[name] = "skipped"
            elif "uses" in job:
                self.results[name] = "success"  # ci.yml, which has its own test
            else:
                self.results[name] = self.job(name, job, context)
        return self.results

    def context(self, needs: list[str]) -> dict[str, Any]:
        """Return the contexts of a job in the trusted workflow."""
        job = {"workflow_ref": TRUSTED, "workflow_sha": TRUSTED_COMMIT, "workflow_repository": REPOSITORY}
        found = {need: {"result": self.results[need], "outputs": self.outputs.get(need, {})} for need in needs}
        return {"github": self.github, "job": job, "needs": found}

    def job(self, name: str, job: dict[str, Any], context: dict[str, Any]) -> str:
        """Run one job on its own machine."""
        workspace = self.repository.folder.with_name("workspace")  # one path for all jobs, so that nothing is compiled twice
        shutil.rmtree(workspace, ignore_errors=True)
        workspace.mkdir()
        temp = self.folder / f"{name}-temp"
        environment = workflow_runner.environment(temp, workspace, self.commit)
        environment |= {"PYTHONPATH": str(ROOT), "FLASHCORE_CI_PYTHON": sys.executable, "GITHUB_API_URL": self.api.url}
        environment |= {
            "GITHUB_RUN_ID": self.github["run_id"],
            "GITHUB_RUN_ATTEMPT": str(self.attempt),
            "GITHUB_REF": self.github["ref"],
        }
        environment["PATH"] = f"{self._tools(temp, workspace)}:{environment['PATH']}"
        runner = Runner(workspace, self.protected, temp, {**context, "runner": {"temp": str(temp)}}, environment, self.actions())
        self.runners[name] = runner
        result = runner.run(job)
        self.outputs[name] = workflow_runner.outputs_of(job, runner)
        return result

    def _tools(self, temp: Path, workspace: Path) -> Path:
        """Make ``gh``, python3 and the installed tool. With a GPU, the tool replays a recording."""
        tools = temp / "tools"
        installed = temp / "flashcore-ci/bin"
        for folder in (tools, installed):
            folder.mkdir(parents=True)
        (tools / "python3").symlink_to(sys.executable)
        (temp / "signed").write_text(json.dumps(self.signed))
        fake_gh = ROOT / "tests/functional/fakes/gh.py"
        fake_gpu = ROOT / "tests/functional/fakes/measured.py"
        lines = {
            tools / "gh": f'export SIGNED="{temp}/signed"\nexec {sys.executable} -E -S {fake_gh} "$@"',
            installed
            / "flashcore-ci": f'export MEASURED="{self.gpu or ""}"\nexec {sys.executable} {fake_gpu} {" ".join(COMMAND)} "$@"',
        }
        for file, line in lines.items():
            file.write_text(f"#!/bin/sh\n{line}\n")
            file.chmod(0o755)
        for extra in ("", "[measure]", "[history]"):
            (temp / f"flashcore-ci/installed{extra}").touch()
        return tools

    def actions(self) -> dict[str, Callable[[Runner, dict[str, str]], bool]]:
        """Return fakes of third-party actions."""
        return {
            "actions/checkout": self._checkout,
            "actions/setup-python": lambda runner, given: given["python-version"] == "3.11",
            "actions/upload-artifact": self._upload,
            "actions/upload-pages-artifact": lambda runner, given: (runner.workspace / given["path"] / "index.html").is_file(),
            "actions/download-artifact": self._download,
            "actions/attest": self._attest,
            "github/codeql-action/upload-sarif": self._sarif,
        }

    def _checkout(self, runner: Runner, given: dict[str, str]) -> bool:
        """The merged change, or the commit of the trusted workflow, which here has the repository's files."""
        assert given.get("ref", TRUSTED_COMMIT) == TRUSTED_COMMIT
        shutil.copytree(self.repository.folder, runner.workspace, symlinks=True, dirs_exist_ok=True)
        return given["persist-credentials"] == "false"

    def _upload(self, runner: Runner, given: dict[str, str]) -> bool | dict[str, str]:
        """Keep the files under a new id. A name that exists is an error on GitHub too."""
        files = [file for line in given["path"].split() for file in sorted(runner.workspace.glob(line))]
        if given["name"] in self.names or not files:
            return False
        number = str(100 + len(self.artifacts))
        folder = self.folder / "artifacts" / number
        folder.mkdir(parents=True)
        for file in files:
            shutil.copy(file, folder)
        self.artifacts[number], self.names[given["name"]] = folder, number
        if isinstance(self.api, Comments):
            self.api.put_artifact(int(self.github["run_id"]), given["name"], int(number))
        return {"artifact-id": number}

    def replace_artifact(self, name: str, file: Path) -> None:
        """Do what any job of the run can: delete the artifact and upload another of this name."""
        del self.artifacts[self.names[name]]
        number = str(900 + len(self.artifacts))
        self.artifacts[number] = self.folder / "artifacts" / number
        self.artifacts[number].mkdir(parents=True)
        shutil.copy(file, self.artifacts[number] / "gpu.tar.xz")
        self.names[name] = number

    def _download(self, runner: Runner, given: dict[str, str]) -> bool:
        number = given["artifact-ids"] if "artifact-ids" in given else self.names.get(given["name"], "")
        if number not in self.artifacts:
            return False
        shutil.copytree(self.artifacts[number], runner.workspace / given["path"])
        return True

    def _attest(self, runner: Runner, given: dict[str, str]) -> bool:
        """Sign as the workflow that runs. A fork's run has no identity."""
        if not self.is_trusted:
            return False
        files = [runner.workspace / line for line in given["subject-path"].split()]
        digests = {hashlib.sha256(file.read_bytes()).hexdigest(): file.name for file in files}
        statement = {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": name, "digest": {"sha256": digest}} for digest, name in digests.items()],
            "predicateType": given["predicate-type"],
            "predicate": json.loads((runner.workspace / given["predicate-path"]).read_bytes()),
        }
        result = {"signature": {"certificate": self.certificate()}, "statement": statement}
        for digest in digests:
            self.signed.setdefault(digest, []).append(result)
        return True

    def certificate(self, **changes: str) -> dict[str, str]:
        """Return what Sigstore's certificate says of this run."""
        signer = f"https://github.com/{TRUSTED}"
        return {
            "issuer": "https://token.actions.githubusercontent.com",
            "subjectAlternativeName": signer,
            "buildSignerURI": signer,
            "buildSignerDigest": TRUSTED_COMMIT,
            "sourceRepositoryURI": f"https://github.com/{REPOSITORY}",
            "sourceRepositoryRef": self.github["ref"],
            "sourceRepositoryDigest": self.commit,
            "runnerEnvironment": "github-hosted",
            "runInvocationURI": f"https://github.com/{REPOSITORY}/actions/runs/{self.github['run_id']}/attempts/{self.attempt}",
            **changes,
        }

    def _sarif(self, runner: Runner, given: dict[str, str]) -> bool:
        self.uploaded.append(given["sarif_file"])
        return (runner.workspace / given["sarif_file"]).is_file()
