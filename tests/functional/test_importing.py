"""Children that are forks of a process which has imported their modules."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashcore_ci.adapters import process
from flashcore_ci.adapters.process import Completed
from flashcore_ci.model.errors import CannotCollectError

PYTHON = Path(sys.executable)
MODULE = """
import atexit, os, random, subprocess, sys, time
print(sys.argv[1:], os.getcwd(), os.environ.get("OWN"), os.environ.get("IMPORTERS"), __name__, "wave" in sys.modules)
print(random.random())
if sys.argv[1] == "orphan":
    print(subprocess.Popen(["sleep", "60"], start_new_session=True).pid)
if sys.argv[1] == "hang":
    time.sleep(60)
if sys.argv[1] == "raise":
    raise ValueError("planted")
atexit.register(lambda: print("orderly end"))
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    package = tmp_path / "planted"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(MODULE)
    with process.importing(PYTHON, ("wave",), {**os.environ, "PYTHONPATH": str(tmp_path), "IMPORTERS": "yes"}):
        yield tmp_path


def run(folder: Path, *arguments: str, seconds: float = 20.0, imported: bool = True) -> Completed:
    name, environment = f"run-{time.monotonic_ns()}", {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)}
    command = (PYTHON, "-m", "planted", *arguments)
    return process.run(
        command, logs=folder, name=name, timeout=seconds, cwd=folder, env=environment, variables={"OWN": "1"}, imported=imported
    )


def test_a_fork_has_its_own_arguments_variables_and_folder_and_what_was_imported(folder: Path) -> None:
    for status in (0, 3):
        done = run(folder, "plain", str(status))
        first, _, last = done.text().splitlines()
        assert first == f"['plain', '{status}'] {folder} 1 None __main__ True"
        assert (done.returncode, last) == (status, "orderly end")


def test_a_child_that_may_not_be_a_fork_has_imported_nothing(folder: Path) -> None:
    assert run(folder, "plain", "0", imported=False).text().splitlines()[0].endswith("__main__ False")


def test_random_numbers_of_two_forks_differ(folder: Path) -> None:
    assert len({run(folder, "plain", "0").text().splitlines()[1] for _ in range(3)}) == 3


def test_an_exception_is_printed_and_is_status_1(folder: Path) -> None:
    done = run(folder, "raise", "0")
    assert (done.returncode, done.last_lines()[-1]) == (1, "ValueError: planted")


def test_a_fork_that_hangs_is_ended(folder: Path) -> None:
    done = run(folder, "hang", "0", seconds=0.5)
    assert done.timed_out
    assert done.seconds < 10


def test_no_descendant_of_a_fork_survives(folder: Path) -> None:
    orphan = int(run(folder, "orphan", "0").text().splitlines()[2])
    with pytest.raises(ProcessLookupError):
        os.kill(orphan, 0)


def test_a_module_that_cannot_be_imported_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("print('ran')")
    with process.importing(PYTHON, ("no_such_module",), dict(os.environ)):
        done = process.run(
            (PYTHON, "-m", "planted"), logs=tmp_path, name="run", timeout=20, cwd=tmp_path, variables={"PYTHONPATH": str(tmp_path)},
            imported=True,
        )  # fmt: skip
    assert done.text() == "ran\n"


def test_a_program_that_is_not_there_is_told_by_its_first_child(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with process.importing(absent, ("wave",), {}), pytest.raises(CannotCollectError, match=f"cannot start {absent}"):
        process.run((absent, "-m", "planted"), logs=tmp_path, name="run", timeout=20, imported=True)


def test_a_lock_is_kept_by_both_kinds(folder: Path) -> None:
    with (folder / "lock").open("wb") as lock, process.keep_locked(lock.fileno()):
        assert run(folder, "plain", "0").returncode == 0
        assert run(folder, "plain", "0", imported=False).returncode == 0


def test_an_inner_block_does_nothing(folder: Path) -> None:
    with process.importing(PYTHON, ("wave",), {}):
        pass
    assert run(folder, "plain", "0").text().splitlines()[0].endswith("True")
