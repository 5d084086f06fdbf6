"""Help comes at once: quick, small, and without what only a run needs."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

TRIES = 20  # a second of a busy processor does less
HELP_SECONDS = 0.150
HELP_KILOBYTES = 40 * 1024


def seconds_of(argv: list[str], environment: dict[str, str]) -> float:
    """Seconds of the processor: those of the clock say more of the machine's other work."""
    before = used()
    subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL)
    return used() - before


def used() -> float:
    """What all children that have ended took."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def test_help_is_quick(environment: dict[str, str]) -> None:
    program = "import sys; from flashcore_ci.cli.main import run; sys.exit(run(['--help']))"
    for _ in range(TRIES):
        shown = seconds_of([sys.executable, "-c", program], environment)
        bare = seconds_of([sys.executable, "-c", "import click"], environment)
        if shown <= min(HELP_SECONDS, 2.5 * bare):
            break
    assert shown <= HELP_SECONDS
    assert shown <= 2.5 * bare


def test_help_is_small(environment: dict[str, str]) -> None:
    # VmHWM belongs to the program itself; ru_maxrss would count the process that started it too.
    program = (
        "import re, sys; from flashcore_ci.cli.main import run; run(['--help']); "
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    assert int(done.stderr) <= HELP_KILOBYTES


def test_help_imports_nothing_heavy(environment: dict[str, str]) -> None:
    program = (
        "import sys; from flashcore_ci.cli.main import run; run(['--help']); "
        "print(sorted({'rich', 'pydantic', 'elftools', 'junit_xml', 'ncu_report', 'torch'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    "name", ["gate", "plan", "build", "collect", "judge", "report", "baseline", "pack", "doctor", "toolchain", "explain"]
)
def test_every_command_has_help(cli, name: str) -> None:
    done = cli(name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: ")
