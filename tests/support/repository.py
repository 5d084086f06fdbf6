"""A small repository under git that has measured evidence of its own commit, as a GPU job would pack it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import tool_server
from evidence_factories import good_observation, make_evidence, make_provenance
from replayed import ROOT, environ

from flashcore_ci import __version__
from flashcore_ci.adapters import clock
from flashcore_ci.build import toolchain
from flashcore_ci.build.subjects import build_subjects
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.request import Request
from flashcore_ci.store.run import pack, prepare_run, write_run

SUITE = "gates/hopper.toml"
GREEN, RED = "green", "red"
COMMAND = (sys.executable, "-m", "flashcore_ci.cli.main")
AUTHOR = ("-c", "user.name=tests", "-c", "user.email=tests@example.org", "-c", "commit.gpgsign=false")

DATED = {"GIT_AUTHOR_DATE": "2026-11-21T08:00:00Z", "GIT_COMMITTER_DATE": "2026-11-21T08:00:00Z"}
"""The same files are the same commit, whenever: what was compiled of it before counts."""


class Repository:
    """The checkout of the functional tests as a repository; its suite is where the action looks for one."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        shutil.copytree(ROOT / "tests/functional/checkout", folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(ROOT / ".github", folder / ".github", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "gates").mkdir()
        (folder / "suite.toml").rename(folder / SUITE)
        (folder / ".gitignore").write_text("runs/\nbuild/\n__pycache__/\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("a kernel")

    def git(self, *arguments: str) -> str:
        """What git prints."""
        argv = ["git", *AUTHOR, *arguments]
        env = {**os.environ, **DATED}
        return subprocess.run(argv, cwd=self.folder, env=env, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()

    def commit(self, message: str) -> str:
        """The commit of everything as it is now."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", f"--message={message}")
        return self.git("rev-parse", "HEAD")

    def edit(self, file: str, old: str, new: str) -> None:
        """Exchange ``old``, which must be there, for ``new``."""
        text = (self.folder / file).read_text(encoding="utf-8")
        assert old in text
        (self.folder / file).write_text(text.replace(old, new), encoding="utf-8")

    def tool(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run ``flashcore-ci`` here."""
        return tool_server.run([*map(str, arguments)], cwd=self.folder, env=self.environment)

    def built(self) -> tuple[Plan, tuple[BuildEvidence, ...]]:
        """The plan, and what ``flashcore-ci build`` would write to ``build``: in this process, since each command takes a second."""
        request = Request(
            suite=Path(SUITE),
            out=self.folder / "runs",
            libraries=self.folder / "build",
            environ=self.environment,
            checkout=self.folder,
        )
        plan = make_plan(load_suite(request), request, ignore)
        builds = build_subjects(
            plan.descriptions,
            root=self.folder,
            toolchain=pinned_tools(request.settings.home),
            out=request.binaries,
            cache=request.settings.home / "cache",
            jobs=request.compilers,
            progress=ignore,
        )
        assert all(build.error is None for build in builds)
        return plan, builds

    def measured(self, into: Path, *, difference: float = 0.0, **provenance: object) -> Path:
        """A run folder with made-up measurements of the commit that is checked out: ``difference`` is what max-diff finds."""
        plan, builds = self.built()
        observation = good_observation(
            plan,
            builds[0],
            Kind.CORRECTNESS,
            "twice-n4096",
            readings=tuple((name, Measured(value=difference, unit=unit)) for name, unit in READINGS),
        )
        provenance = {"commit": self.git("rev-parse", "HEAD"), "version": __version__, "collected_at": clock.now(), **provenance}
        prepare_run(into, plan)
        write_run(into, plan, make_evidence(provenance=make_provenance(**provenance), builds=builds, observations=(observation,)))
        return into

    def packed(self, file: Path, **changes: object) -> Path:
        """The same in one file."""
        file.parent.mkdir(parents=True, exist_ok=True)
        pack(self.measured(file.with_suffix(".run"), **changes), file)
        return file


class Copy(Repository):
    """What the default suite reads, and a page. One commit."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.environment = folder, {**environ(), "PYTHONPATH": str(ROOT)}
        for name in ("kernel", "gates", ".github"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("docs/start.md", "pyproject.toml", ".gitignore", "flashcore_ci/worker/__init__.py"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("this repository")


@functools.cache
def pinned_tools(home: Path) -> toolchain.Toolchain:
    """The pinned CUDA tools. Their bytes are checked once."""
    return toolchain.install(home, sys.executable, ignore)


def ignore(*_: object) -> None:
    """Take progress that nobody reads."""


READINGS = (("diff/max", "abs"), ("error/ratio", "ratio"), ("finite/bad-values", "count"), ("repeat/differing-runs", "count"))
