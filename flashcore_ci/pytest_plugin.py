"""The pytest plugin: ``def test_softmax(kernel_gate): kernel_gate(fn, ref, inputs)``.

It imports nothing of the gate before a test asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--kernel-gate``."""
    parser.getgroup("flashcore-ci").addoption(
        "--kernel-gate",
        choices=["auto", "live", "recorded"],
        default="auto",
        help="Measure kernels on this machine's GPU (live), or judge recorded evidence.  [auto: live with a GPU]",
    )


@pytest.fixture
def kernel_gate(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Gate ``fn`` against ``ref``: the verdicts of ``flashcore-ci gate``, and its reports in runs/pytest.

    ``inputs`` is a function by name that takes a seed and returns a dict of tensors, or such a dict: its shapes and types count.
    """

    def gate(fn: Callable[..., Any], ref: Callable[..., Any], inputs: Any, **options: Any) -> Any:
        from flashcore_ci.scaffold import testing  # noqa: PLC0415 - other test runs must not pay for it

        mode = request.config.getoption("--kernel-gate")
        ended = testing.gate(
            fn, ref, inputs, root=request.config.rootpath, name=request.node.nodeid, mode=mode, environ=os.environ, **options
        )
        if ended.skipped:
            pytest.skip(ended.text)
        request.node.user_properties.append(("kernel_gate", str(ended.out)))
        if not ended.passed:
            pytest.fail(ended.text, pytrace=False)
        return ended.report

    return gate
