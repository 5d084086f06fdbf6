"""GPU tests: ``FLASHCORE_LIBRARY=build python -m pytest -m gpu tests/kernel/gpu``, on a Hopper GPU, after ``flashcore-ci build``."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

KERNEL = Path(__file__).parents[3] / "kernel"


@pytest.fixture(autouse=True, scope="session")
def flashcore() -> ModuleType:
    """Import the package with its libraries. A missing GPU or library is a failure, not a skip."""
    import torch

    sys.path.insert(0, str(KERNEL))
    import flashcore as package
    from flashcore import _library

    if not torch.cuda.is_available():
        pytest.fail("no CUDA device: deselect these tests with -m 'not gpu'")
    for operation in ("attention", "combine", "decode", "stream"):
        _library.get_library(operation)
    return package
