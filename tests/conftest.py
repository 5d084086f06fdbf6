"""Options that every test folder shares."""

from __future__ import annotations

import compileall
import contextlib
import os
import re
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STARTED = ("flashcore_ci", "tests", "tools")
"""Folders whose modules the tests import in hundreds of processes."""
TESTS = re.compile(r"/(test_\w+|conftest)\.py$")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    """Compile them once, also where ``PYTHONDONTWRITEBYTECODE`` is set: a third of a command's time is compilation."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job behind a shell: no test could interrupt anything
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        for folder in STARTED:
            compileall.compile_dir(ROOT / folder, quiet=2, rx=TESTS)
        with contextlib.suppress(AttributeError, ImportError, OSError, TypeError):  # pytest's own, and only faster
            compile_tests(config)


def compile_tests(config: pytest.Config) -> None:
    """Rewrite the asserts of all tests once: every worker imports them all, and they take 10 s."""
    from _pytest.assertion import rewrite

    for file in sorted((ROOT / "tests").rglob("*.py")) if config.getoption("numprocesses", None) else ():
        if TESTS.search(str(file)):
            kept = rewrite.get_cache_dir(file) / (file.stem + rewrite.PYC_TAIL)
            if rewrite._read_pyc(file, kept) is None:
                stat, code = rewrite._rewrite_test(file, config)
                kept.parent.mkdir(exist_ok=True)
                rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, stat, kept)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: many tests wait for a time limit, a lock or a process that ends."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
