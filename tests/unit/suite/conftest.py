"""A checkout with one suite, whose text is the test's."""

import re

import pytest

from flashcore_ci.model.errors import ExitCode, SuiteError
from flashcore_ci.suite.loader import load


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "gates").mkdir()
    (tmp_path / "scale.py").write_text("from elsewhere import *\n")
    return tmp_path


@pytest.fixture
def read(checkout):
    def read(text):
        (checkout / "gates/tiny.toml").write_text(text)
        return load(checkout / "gates/tiny.toml", root=checkout)

    return read


@pytest.fixture
def problems(read):
    def problems(text):
        with pytest.raises(SuiteError) as caught:
            read(text)
        assert caught.value.exit_code is ExitCode.INVALID_SUITE
        assert str(caught.value) == "\n".join(caught.value.problems)
        return tuple(re.sub(r"^([^:\s]+\.toml):\d+: ", r"\1: ", line) for line in caught.value.problems)

    return problems
