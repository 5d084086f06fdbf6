"""Options that every test folder shares."""

from __future__ import annotations

import compileall
import os
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STARTED = ("flashcore_ci", "tests/functional/fakes")
"""Folders whose modules the tests import in hundreds of processes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    """Compile them once, also where ``PYTHONDONTWRITEBYTECODE`` is set: a third of a command's time is compilation."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job behind a shell: no test could interrupt anything
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        for folder in STARTED:
            compileall.compile_dir(ROOT / folder, quiet=2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: many tests wait for a time limit, a lock or a process that ends."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
