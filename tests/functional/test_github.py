"""Our actions and nightly jobs, step by step as GitHub would: expressions, environment files, artifacts."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import workflow_runner
from comment_server import Comments
from jobs import GitHub
from replayed import ROOT, environ, valid
from repository import GREEN, RED, Repository
from workflow_runner import Runner

from flashcore_ci.run.host import has_gpu

NOBODY = SimpleNamespace(runs=[{"id": 1}], url="")
"""The API for jobs that ask it nothing."""
UNKNOWN = "inconclusive"


def alone(repository: Repository, tmp_path: Path, **inputs: str) -> Runner:
    """The action `gate` in a job of its own, over recorded evidence."""
    checkout = {"uses": "actions/checkout@pin", "with": {"persist-credentials": False}}
    step = {"id": "it", "uses": "./.github/actions/gate", "with": {"measure": "recorded", **inputs}}
    github = GitHub(repository, tmp_path, NOBODY)
    github.job("alone", {"steps": [checkout, step]}, github.context([]) | {"ok": True})
    return github.runners["alone"]


# --- The action ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def with_evidence(repository: Repository, runs: dict[str, Path]) -> Callable[[str], Repository]:
    """The repository with a recorded run committed, or none."""

    def commit(kind: str) -> Repository:
        folder = repository.folder / "gates/evidence"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if kind in runs:
            assert repository.tool("pack", runs[kind], folder / "h200.tar.xz").returncode == 0
        return repository

    yield commit
    shutil.rmtree(repository.folder / "gates/evidence")


@pytest.mark.parametrize(
    ("kind", "verdict", "code"), [(GREEN, "PASS", "0"), (RED, "FAIL", "10"), (UNKNOWN, "INCONCLUSIVE", "11")]
)
def test_a_run_of_the_action(
    with_evidence: Callable[[str], Repository], tmp_path: Path, kind: str, verdict: str, code: str
) -> None:
    runner = alone(with_evidence(kind), tmp_path)
    assert runner.outputs["it"] == {"verdict": verdict, "exit-code": code, "reports": "runs/latest", "evidence": ""}, runner.log
    assert runner.ok == (kind == GREEN)
    valid(runner.workspace / "runs/latest")
    assert runner.summary.startswith("# ")
    assert verdict in runner.summary


@pytest.mark.parametrize(("kind", "fail_on", "ok"), [(RED, "never", True), (RED, "failure", False), (UNKNOWN, "failure", True)])
def test_what_may_pass(with_evidence: Callable[[str], Repository], tmp_path: Path, kind: str, fail_on: str, ok: bool) -> None:
    assert alone(with_evidence(kind), tmp_path, **{"fail-on": fail_on}).ok == ok


def test_an_error_of_the_tool_fails_whatever_is_tolerated(repository: Repository, tmp_path: Path) -> None:
    runner = alone(repository, tmp_path, suite="gates/none.toml", **{"fail-on": "never"})
    assert not runner.ok
    assert runner.outputs["it"]["exit-code"] == "3"
    assert "gates/none.toml" in runner.summary


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fail-on", "maybe"),
        ("measure", ""),
        ("stale", "--help"),
        ("suite", " "),
        ("toolchain", "conda\n::error::x"),
        ("changed", "--help"),
    ],
)
def test_an_input_that_is_none_of_its_choices(repository: Repository, tmp_path: Path, name: str, value: str) -> None:
    runner = alone(repository, tmp_path, **{name: value})
    assert not runner.ok
    (line,) = [line for line in runner.log.splitlines() if line.startswith("::")]
    assert line.startswith(f"::error title=flashcore-ci::{name}: ")


@pytest.mark.parametrize(
    "value", ["$(touch pwned)", "`touch pwned`", "x; touch pwned", '"; touch pwned; "', "${{ github.token }}"]
)
def test_an_input_is_never_code(repository: Repository, tmp_path: Path, value: str) -> None:
    runner = alone(repository, tmp_path, suite=value)
    assert not runner.ok
    assert not (runner.workspace / "pwned").exists()
    assert runner.outputs["it"]["exit-code"] == "3"


def test_a_red_gate_is_annotated_and_nothing_else_is_a_command(
    with_evidence: Callable[[str], Repository], tmp_path: Path
) -> None:
    log = alone(with_evidence(RED), tmp_path).log.splitlines()
    commands = [line for line in log if line.lstrip().startswith("::")]
    assert len(commands) == 1, commands
    assert commands[0].startswith("::error ")
    assert "max-diff" in commands[0]


# --- Nightly jobs, and the installation -------------------------------------------------------------------------------


@pytest.mark.skipif(has_gpu(), reason="this machine has a GPU")
@pytest.mark.parametrize(
    ("name", "lacking"),
    [("runner", "no NVIDIA GPU"), ("calibrate", "no NVIDIA GPU"), ("selftest", "gates/selftest.toml: there is no such file")],
)
def test_nightly_jobs_find_their_commands(repository: Repository, tmp_path: Path, name: str, lacking: str) -> None:
    """Here they stop for want of a GPU, or of planted defects, and for nothing else: every option was understood."""
    github = GitHub(repository, tmp_path, NOBODY)
    job = workflow_runner.workflows()["nightly.yml"]["jobs"][name]
    assert github.job(name, job, github.context([]) | {"ok": True}) == "failure"
    assert lacking in github.runners[name].log
    assert "Usage" not in github.runners[name].log


def test_the_nightly_suites(repository: Repository, runs: dict[str, Path], tmp_path: Path) -> None:
    github = GitHub(repository, tmp_path, NOBODY, gpu=runs[GREEN])
    job = workflow_runner.workflows()["nightly.yml"]["jobs"]["suites"]
    context = github.context([]) | {"matrix": {"suite": "hopper"}, "ok": True}
    assert github.job("suites", job, context) == "success", github.runners["suites"].log
    assert {"hopper.tar.xz", "report.json", "summary.md"} <= {
        file.name for file in github.artifacts[github.names["hopper"]].iterdir()
    }


def test_the_nights_runs_become_a_site(repository: Repository, runs: dict[str, Path], tmp_path: Path, comments: Comments) -> None:
    github = GitHub(repository, tmp_path, comments, gpu=runs[GREEN])
    repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
    jobs = workflow_runner.workflows()["nightly.yml"]["jobs"]
    assert github.job("suites", jobs["suites"], github.context([]) | {"matrix": {"suite": "hopper"}, "ok": True}) == "success"
    assert github.job("history", jobs["history"], github.context([]) | {"ok": True}) == "success", github.runners["history"].log


@pytest.fixture
def action() -> ModuleType:
    """The program of our actions."""
    spec = importlib.util.spec_from_file_location("run_of_the_actions", ROOT / ".github/actions/run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("chosen", "words"), [(None, []), ("", []), ("1", ["--gpu=1"])])
def test_the_action_uses_every_visible_gpu_unless_one_is_named(action: ModuleType, chosen: str | None, words: list[str]) -> None:
    """``--gpu 0`` is the machine's first GPU, whatever CUDA_VISIBLE_DEVICES leaves to this runner."""
    inputs = workflow_runner.load(ROOT / ".github/actions/gate/action.yml")["inputs"]
    given = {name: str(one.get("default", "")) for name, one in inputs.items()} | ({} if chosen is None else {"gpu": chosen})
    environment = {f"INPUT_{name.upper().replace('-', '_')}": value for name, value in given.items()}
    arguments = action.arguments("gate", action.read("gate", environment))
    assert "--live" in arguments
    assert [word for word in arguments if "gpu" in word] == words


@pytest.mark.parametrize(
    ("extra", "locks"),
    [("", ["required.lock"]), ("[measure]", ["required.lock", "measure.lock"]), ("[gpu]", ["required.lock", "measure.lock"])],
)
def test_the_action_installs_what_is_locked_once(
    action: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, extra: str, locks: list[str]
) -> None:
    """The nightly test below installs for real."""
    started: list[list[str]] = []

    def run(argv: list[object]) -> int:
        started.append([str(word) for word in argv])
        return 0 if len(started) <= succeed else 1

    monkeypatch.setattr(action, "_run", run)
    for succeed in (0, 1, 2):
        started.clear()
        assert action.install(tmp_path / "tool", extra) is None
        assert len(started) == succeed + 1
    succeed = 9
    started.clear()
    (tmp_path / "tool").mkdir()
    assert action.install(tmp_path / "tool", extra) == tmp_path / "tool/bin/flashcore-ci"
    environment, pinned, tool, *others = started
    assert environment == [sys.executable, "-m", "venv", str(tmp_path / "tool")]
    assert {"--require-hashes", "--only-binary=:all:"} <= set(pinned)
    files = [Path(word.partition("=")[2]) for word in pinned if word.startswith("--requirement=")]
    assert [file.name for file in files] == locks
    assert all("--hash=sha256:" in file.read_text() for file in files)
    assert {"--no-deps", "--no-index", "--no-build-isolation", str(ROOT)} <= set(tool)
    assert [words[-1] for words in others] == ([f"{ROOT}[gpu]"] if extra == "[gpu]" else [])
    started.clear()
    assert action.install(tmp_path / "tool", extra) == tmp_path / "tool/bin/flashcore-ci"
    assert started == []


@pytest.mark.nightly
def test_the_action_installs_the_tool(tmp_path: Path) -> None:
    """For real, once: an environment of its own, from this checkout's sources."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import run, pathlib; print(run.install(pathlib.Path(sys.argv[2]), ''))"
    )
    argv = [sys.executable, "-c", program, str(ROOT / ".github/actions"), str(tmp_path / "tool")]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=True, cwd=tmp_path, env={**environ(), "PYTHONDONTWRITEBYTECODE": "1"}
    )
    tool = Path(done.stdout.splitlines()[-1])
    shown = subprocess.run(
        [tool, "--version"], capture_output=True, text=True, check=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}
    )
    assert shown.stdout.startswith("flashcore-ci, version ")
    assert json.loads((tmp_path / "tool/installed").read_text() or "null") is None


@pytest.mark.parametrize("measures", [True, False])
def test_the_action_packs_what_this_run_wrote(
    action: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measures: bool
) -> None:
    """A run that finds no GPU leaves the evidence of an earlier one in the folder."""
    out, manifest = tmp_path / "out", tmp_path / "out/manifest.json"
    out.mkdir()
    manifest.write_text("{}")
    ran: list[str] = []

    def run(argv: list[str], *_: object) -> int:
        ran.append(str(argv[1]))
        if argv[1] == "gate" and measures:
            manifest.unlink()
            manifest.write_text("{} ")
        return 4 if argv[1] == "gate" else 0

    monkeypatch.setattr(action, "read", lambda *_: {"out": str(out), "python": ""})
    monkeypatch.setattr(action, "install", lambda *_: tmp_path / "flashcore-ci")
    monkeypatch.setattr(action, "extras", lambda *_: "")
    monkeypatch.setattr(action, "arguments", lambda *_: [])
    monkeypatch.setattr(action, "_run", run)
    action.main("gate")
    assert ran == (["gate", "pack"] if measures else ["gate"])
