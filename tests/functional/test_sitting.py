"""Two libraries of the same kernels in one process: which of them runs? ``tools/detectors/sitting.py`` times such libraries."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
SOURCE = 'inline constexpr int table[] = {%d, 2, 3}; extern "C" int look(int at) { return table[at]; }'


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sitting", ROOT / "tools/detectors/sitting.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def look(folder: Path) -> list[int]:
    """What each library finds in its own table, in the order in which this process loaded them."""
    return [ctypes.CDLL(str(folder / f"{name}.so")).look(0) for name in ("first", "second")]


def test_each_library_of_a_process_uses_its_own_variables(tmp_path: Path) -> None:
    for name, value in (("first", 11), ("second", 12)):
        argv = ["g++", "-std=c++17", "-shared", "-fPIC", "-x", "c++", "-", "-o", tmp_path / f"{name}.so"]
        subprocess.run(argv, input=SOURCE % value, text=True, check=True)
    assert look(tmp_path) == [11, 11]  # the loader's rule for inline variables, which is why they are separated
    separated = load_tool().separated(tmp_path)
    assert look(separated) == [11, 12]
    shutil.rmtree(separated)
