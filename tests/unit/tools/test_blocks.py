"""Generated blocks are replaced, and the rest of a page stays."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "tools/docs"))
    return importlib.import_module("blocks")


def test_only_the_named_blocks_change(blocks: ModuleType) -> None:
    text = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n<!-- y: begin -->\n<!-- y: end -->\n"
    assert blocks.filled(text, x="new\n") == text.replace("old", "new")
    assert blocks.filled(blocks.filled(text, x="new", y="1"), x="old", y="1") == text.replace("<!-- y: end", "1\n<!-- y: end")


def test_a_page_without_the_block_is_refused(blocks: ModuleType) -> None:
    with pytest.raises(ValueError, match="no block between <!-- x: begin -->"):
        blocks.filled("<!-- y: begin -->\n<!-- y: end -->", x="new")
