"""Functional tests run the real command line in a checkout of their own, as a person would."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import replayed
import tiny_kernel
import tool_server
from comment_server import Comments, serving
from compare_bench import Bench
from nightly_tests import NIGHTLY
from repository import GREEN, RED, Repository, pinned_tools

from flashcore_ci.build.subjects import build_subjects
from flashcore_ci.build.toolchain import Toolchain
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.suite.settings import Settings

ROOT = Path(__file__).parents[2]
CHECKOUT = Path(__file__).parent / "checkout"

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow ones."""
    for item in items:
        if item.name.startswith(NIGHTLY.get(item.path.name, ())):
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that is the same for many tests: what was compiled at a path counts for the next test there."""
    return tmp_path_factory.mktemp("workshop")


@pytest.fixture
def checkout(workshop: Path) -> Path:
    """A small repository with one subject, one suite and no recorded evidence."""
    folder = workshop / "checkout"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CHECKOUT, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of a log: no terminal, no colours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST") and name != "FORCE_COLOR"}
    return {**kept, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}


@pytest.fixture
def cli(checkout: Path, environment: dict[str, str]) -> Cli:
    """Run ``flashcore-ci`` with these arguments in the checkout."""

    def run(*arguments: str | Path, cwd: Path = checkout, **variables: str) -> subprocess.CompletedProcess[str]:
        return tool_server.run([*map(str, arguments)], cwd=cwd, env={**environment, **variables})

    return run


@pytest.fixture(scope="session")
def defects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the planted defects, and in ``build`` what the compiler said of them when they were recorded."""
    folder = replayed.checkout(tmp_path_factory.mktemp("defects"))
    replayed.place_builds(folder, tmp_path_factory.mktemp("asked"))
    return folder


@pytest.fixture
def machine(tmp_path: Path, defects: Path) -> Iterator[replayed.Machine]:
    """A machine that repeats the recorded run of the planted defects."""
    machine = replayed.Machine(tmp_path, defects, replayed.environ())
    yield machine
    machine.end()
    assert machine.unknown == ""


@pytest.fixture
def comments() -> Iterator[Comments]:
    """The comments of a pull request, as GitHub serves them."""
    with serving(Comments()) as server:
        yield server


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The checkout of these tests as a repository."""
    return Repository(tmp_path_factory.mktemp("github") / "repository", {**replayed.environ(), "PYTHONPATH": str(ROOT)})


@pytest.fixture(scope="module")
def runs(repository: Repository) -> dict[str, Path]:
    """Run folders as a GPU leaves them: of this commit, green and red."""
    base = repository.folder.with_name("runs")
    base.mkdir()
    found = {GREEN: repository.measured(base / GREEN), RED: repository.measured(base / RED, difference=0.5)}
    shutil.rmtree(repository.folder / "build")
    return found


@pytest.fixture(scope="session", autouse=True)
def toolchain() -> Toolchain:
    """The pinned CUDA tools. They are there before any test: a command with a stand-in for Python could not install them."""
    return pinned_tools(Settings.from_environment(os.environ).home)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: each of these builds differs from the others in what it should."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def root(workshop: Path) -> Path:
    """At one path for all: what one test compiled of the files as they are below, the next need not."""
    shutil.rmtree(workshop / "tiny", ignore_errors=True)
    return tiny_kernel.written(workshop / "tiny/root")


@pytest.fixture
def build(toolchain: Toolchain, cache: Path) -> Callable[..., tuple[BuildEvidence, ...]]:
    """Build subjects of a checkout. ``told`` has the progress."""

    def run(
        root: Path,
        descriptions: Any = None,
        *,
        out: Path | None = None,
        cache: Path = cache,
        with_tools: Toolchain = toolchain,
        **libraries: Any,
    ) -> tuple[BuildEvidence, ...]:
        return build_subjects(
            descriptions or (tiny_kernel.description(),),
            root=root,
            toolchain=with_tools,
            out=out or root.parent / "out",
            cache=cache,
            jobs=2,
            progress=lambda done, total, what: told.append((done, total, what)),
            **libraries,
        )

    told: list[tuple[int, int, str]] = []
    vars(run)["told"] = told
    return run


@pytest.fixture
def bench(tmp_path: Path, workshop: Path, environment: dict[str, str]) -> Bench:
    """A repository on two branches, and a machine that times it."""
    shutil.rmtree(workshop / "compared", ignore_errors=True)
    return Bench(tmp_path, workshop / "compared", environment)
