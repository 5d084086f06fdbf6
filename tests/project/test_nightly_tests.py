"""What only runs at night is named as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from nightly_tests import NIGHTLY

FUNCTIONAL = Path(__file__).parents[1] / "functional"


@pytest.mark.parametrize("file", NIGHTLY)
def test_every_name_is_the_start_of_a_test(file: str) -> None:
    text = (FUNCTIONAL / file).read_text(encoding="utf-8")
    assert [name for name in NIGHTLY[file] if f"def {name.split('[')[0]}" not in text] == []
