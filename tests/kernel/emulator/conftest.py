"""One folder of compiled objects for a session, unless ``FLASHCORE_EMULATOR_CACHE`` names one."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if platform.machine() != "x86_64":
    collect_ignore_glob = ["test_emulat*.py"]  # it switches stacks on x86-64 only


@pytest.fixture(scope="session", autouse=True)
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if "FLASHCORE_EMULATOR_CACHE" in os.environ:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLASHCORE_EMULATOR_CACHE", str(tmp_path_factory.mktemp("objects")))
        yield
