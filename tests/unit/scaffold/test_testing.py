"""What the pytest plugin measures is the very function that the test gave."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from flashcore_ci.bounded.values import shorten
from flashcore_ci.scaffold import testing

KERNELS = """import functools


def logged(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments) + 1

    return wrapper


def double(x):
    return x + x


wrapped = logged(double)


def twice(x):
    return x + x


older = twice


@logged
def twice(x):
    return x * 3
"""
REFERENCES = "def double(x):\n    return 2 * x\n\n\ndef draw(seed):\n    return {'x': seed}\n"


def gate(folder: Path, kernel: str, tolerance: object = None) -> testing.Ended:
    modules = {}
    for name, text in (("kernels", KERNELS), ("references", REFERENCES)):
        (folder / f"{name}.py").write_text(text)
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[name])
    sides = getattr(modules["kernels"], kernel), modules["references"].double
    return testing.gate(
        *sides, modules["references"].draw, root=folder, name=kernel, mode="auto", environ={}, tolerance=tolerance
    )


@pytest.mark.parametrize(("kernel", "is_measured"), [("double", True), ("twice", True), ("wrapped", False), ("older", False)])
def test_a_function_that_has_the_name_of_another_is_refused(tmp_path: Path, kernel: str, is_measured: bool) -> None:
    """``fast = torch.compile(slow)`` has the name of ``slow``, which a process that imports it by name would measure."""
    ended = gate(tmp_path, kernel)
    refused = "the kernel is not what its file has as" in ended.text and "fix: define it with def" in ended.text
    assert (ended.skipped, refused) == (is_measured, not is_measured), ended.text


class OfNumPy(float):
    """A number that is a float and has a type of its own, as numpy.float64."""

    def __repr__(self) -> str:
        return f"np.float64({float(self)})"


@pytest.mark.parametrize(
    ("tolerance", "is_measured"),
    [
        (2e-3, True),
        (0, True),
        (OfNumPy(2e-3), True),
        ("x", False),
        (-1.0, False),
        (float("nan"), False),
        (True, False),
        (10**400, False),
    ],
)
def test_a_tolerance_is_a_number(tmp_path: Path, tolerance: object, is_measured: bool) -> None:
    ended = gate(tmp_path, "double", tolerance)
    refused = f"tolerance is {shorten(repr(tolerance))}" in ended.text and "fix: give the largest absolute error" in ended.text
    assert (ended.skipped, refused) == (is_measured, not is_measured), ended.text
