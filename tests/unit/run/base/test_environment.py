from pathlib import Path

import pytest
from factories import make_build

from flashcore_ci.model.errors import UsageError
from flashcore_ci.run.base.environment import compilers, differences
from flashcore_ci.run.request import Request


def test_a_bump_is_named_with_both_versions():
    here, there = {"torch": "2.11", "triton": "3.5", "new": "1"}, {"torch": "2.10", "triton": "3.5"}
    assert list(differences("base", there, here)) == ["torch: 2.10 for base, 2.11 for head"]


def test_the_compiler_of_each_subject_is_a_tool():
    assert compilers((make_build(),)) == {"compiler of scale": make_build().compiler}


def test_a_side_has_its_own_interpreter_and_toolchain(tmp_path):
    python = tmp_path / "python"
    python.touch()
    request = Request(suite=Path("s"), out=Path("o"), environ={"A": "b"}, toolchain="13.5")
    side = request.of_side(python=python, toolchain="13.0")
    assert (side.settings.python, side.toolchain, side.environ["A"]) == (python, "13.0", "b")
    with pytest.raises(UsageError, match="nowhere is not an interpreter"):
        request.of_side(python=Path("nowhere"), toolchain=None)
    assert request.of_side(python=None, toolchain=None) == request
