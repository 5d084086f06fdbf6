"""Generated pages say what the model says. ``make generate`` writes them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def generator() -> object:
    spec = importlib.util.spec_from_file_location("generate_docs", ROOT / "tools" / "generate_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", generator().PAGES)
def test_page_is_up_to_date(name: str) -> None:
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == generator().PAGES[name]()


def test_every_exit_code_and_every_reason_is_there() -> None:
    from flashcore_ci.model.codes import NEXT_STEP, PASSING, Code
    from flashcore_ci.model.errors import MEANING, ExitCode

    assert set(MEANING) == set(ExitCode)
    assert set(Code) - set(NEXT_STEP) == PASSING
