"""A subject uses the installed package if FLASHCORE_INSTALLED says so, and refuses a library that is not the built one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KERNEL = ROOT / "kernel"
NAME = "libflashcore_stream.so"
LIBRARY = """
#include <dlfcn.h>
int flashcore_abi_version(void) { return 2; }
const char* flashcore_error_string(void) { return dlsym(RTLD_DEFAULT, "abort") ? "" : "no abort"; }
long flashcore_read(void) { return 0; }
int flashcore_stream_axpy(void) { return 0; }
"""
PROGRAM = f"""
import pathlib, sys, types
from flashcore_ci.worker import subject_file
subject = subject_file.load(types.SimpleNamespace(name="stream", file=pathlib.Path({str(KERNEL / "subjects/stream.py")!r})))
subject.load(pathlib.Path(sys.argv[1]))
import flashcore
from flashcore import _library
print(flashcore.__file__, _library._libraries["stream"]._name)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library as the build links it: functions that moved into glibc have the version of this machine."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "stream.c"
    source.write_text(LIBRARY, encoding="utf-8")
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(folder / NAME)], check=True)
    return folder / NAME


@pytest.fixture
def site(tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What pip unpacks from the wheel."""
    monkeypatch.syspath_prepend(str(KERNEL))
    import wheel_hook

    package = tmp_path / "site/flashcore"
    shutil.copytree(KERNEL / "flashcore", package, ignore=shutil.ignore_patterns("__pycache__"))
    wheel_hook.drop_moved_versions(Path(shutil.copy(built, package)))
    return package.parent


def load(library: Path, *path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Load the subject in a folder without a checkout, as the worker does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *path))), **variables}
    command = [sys.executable, "-P", "-c", PROGRAM, str(library)]
    return subprocess.run(command, env=environment, cwd=library.parent, capture_output=True, text=True, check=False)


def test_without_the_setting_the_checkout_is_measured(built: Path, site: Path) -> None:
    found = load(built, site, FLASHCORE_INSTALLED="0")
    assert found.stdout.split() == [str(KERNEL / "flashcore/__init__.py"), str(built)], found.stderr


def test_with_the_setting_the_installed_package_and_its_library_are_measured(built: Path, site: Path) -> None:
    found = load(built, site, FLASHCORE_INSTALLED="1")
    assert found.stdout.split() == [str(site / "flashcore/__init__.py"), str(site / "flashcore" / NAME)], found.stderr


def test_the_wheels_hook_may_change_versions_only(built: Path, site: Path) -> None:
    library = site / "flashcore" / NAME
    data = bytearray(library.read_bytes())
    data[data.rindex(b"no abort")] ^= 1
    library.write_bytes(data)
    assert (
        f"{library} is not the library that was built. fix: build the wheel" in load(built, site, FLASHCORE_INSTALLED="1").stderr
    )


def test_a_wheel_without_the_library_is_named(built: Path, site: Path) -> None:
    (site / "flashcore" / NAME).unlink()
    assert f"{site / 'flashcore'} has no {NAME}" in load(built, site, FLASHCORE_INSTALLED="1").stderr


def test_the_checkouts_package_is_not_an_installed_one(built: Path) -> None:
    assert f"fix: take {KERNEL} off PYTHONPATH" in load(built, KERNEL, FLASHCORE_INSTALLED="1").stderr
