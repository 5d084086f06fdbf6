"""Functional tests run the real command line in a checkout of their own, as a person would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import replayed
import tiny_kernel
import tool_server
from comment_server import Comments, serving
from compare_bench import Bench
from repository import GREEN, RED, Repository

from flashcore_ci.build import toolchain as tools
from flashcore_ci.build.subjects import build_subjects
from flashcore_ci.build.toolchain import Toolchain
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.suite.settings import Settings

ROOT = Path(__file__).parents[2]
CHECKOUT = Path(__file__).parent / "checkout"

Cli = Callable[..., subprocess.CompletedProcess[str]]


NIGHTLY = {
    "test_anchor.py": (
        "test_an_anchor_that_is_not_the_pinned_build_is_not_timed",
        "test_an_anchor_is_replaced_after_both_were_measured",
        "test_a_suite_without_an_anchor_says_how_to_pin_one",
        "test_a_bump_of_torch_is_measured_in_both_environments_and_named",
    ),
    "test_bisect.py": (
        "test_the_slow_commit_is_found_and_only_changed_code_is_measured",
        "test_ends_of_equal_code_are_refused_in_one_line",
    ),
    "test_bar.py": ("test_an_acceptance_is_for_this_difference_and_once",),
    "test_browser.py": tuple(
        f"test_{test}[{name}]"
        for test in ("the_console_stays_empty_and_the_page_is_drawn", "no_page_is_wider_than_its_window")
        for name in ("green", "inconclusive", "shades", "error")
    ),
    "test_cli.py": ("test_a_signal_while_compiling[signals1]",),
    "test_compare.py": (
        "test_what_the_base_has_and_cannot_run_is_inconclusive[it raises]",
        "test_several_gpus_compare_with_a_base_too",
        "test_a_head_that_raises_is_a_fail",
        "test_a_throttled_gpu_is_inconclusive",
        "test_a_kernel_that_gets_a_build_is_still_compared_with_the_one_that_had_none",
    ),
    "test_faults.py": (
        "test_a_log_of_noise_is_no_clean_log",
        "test_a_hundred_megabytes_of_a_tool_s_output_in_no_encoding_change_nothing",
        "test_the_language_of_the_machine_changes_nothing[variables1]",
        "test_the_language_of_the_machine_changes_nothing[variables2]",
        "test_a_gate_that_is_killed_at_any_stage_leaves_nothing_that_could_be_judged[gates1-correctness]",
        "test_two_gates_that_start_at_once_measure_one_after_the_other",
        "test_a_clock_that_is_set_back_loses_no_result",
    ),
    "test_fixes.py": (
        "test_the_fix_of_an_error_works_for_the_command_that_failed[gate --suite suite.toml --changed no-such-commit]",
        "test_the_fix_of_an_error_works_for_the_command_that_failed[gate --suite suite.toml --evidence broken]",
    ),
    "test_fleet.py": (
        "test_the_joined_run_is_judged_again_like_any_other",
        "test_a_fault_of_the_kernel_is_never_tried_again",
    ),
    "test_interrupted.py": (
        "test_unfinished_checks_are_interrupted[profile-signals2]",
        "test_unfinished_checks_are_interrupted[sanitizer-signals1]",
        "test_unfinished_checks_are_interrupted[timing-signals3]",
        "test_unfinished_checks_are_interrupted[sanitizer-signals6]",
        "test_unfinished_checks_are_interrupted[timing-signals7]",
    ),
    "test_live_machine.py": ("test_waiting_for_a_gpu_has_an_end",),
    "test_live_tools.py": (
        "test_logs_that_end_before_their_summary_prove_nothing",
        "test_a_target_that_dies_under_no_hazards_fails",
        "test_launches_that_the_roll_call_does_not_list_were_not_checked",
    ),
    "test_needs_gpu.py": (
        "test_code_that_compiles_to_the_same_needs_no_gpu_and_other_code_does",
        "test_a_failed_job_is_never_green",
        "test_a_gpu_job_measures_what_changed_and_the_base_answers_for_the_rest",
    ),
    "test_selftest.py": ("test_the_self_test_can_fail[other reason-no defect-no control-other damage]",),
    "test_trusted.py": ("test_a_fork_runs_without_rights_and_the_queue_signs_for_it",),
}
"""Slow tests whose siblings, or unit tests of the same code, run in each change. At night all of them run."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow ones."""
    for item in items:
        if item.name in NIGHTLY.get(item.path.name, ()):
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


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    """The pinned CUDA tools."""
    return tools.install(Settings.from_environment(os.environ).home, sys.executable, print)


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
