"""Generated pages say what the model says. ``make generate`` writes them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def generator() -> object:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "tools/docs/generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_of_codes_are_up_to_date() -> None:
    generate = generator()
    assert list(generate.stale(ROOT, generate.codes())) == []


def test_the_reference_and_the_schemas_are_up_to_date() -> None:
    generate = generator()
    assert list(generate.stale(ROOT, {**generate.reference(), **generate.schemas()})) == []


def test_every_exit_code_and_every_reason_is_there() -> None:
    from flashcore_ci.model.codes import NEXT_STEP, PASSING, Code
    from flashcore_ci.model.errors import MEANING, ExitCode

    assert set(MEANING) == set(ExitCode)
    assert set(Code) - set(NEXT_STEP) == PASSING


LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PAGES = [path for pattern in ("*.md", "docs/**/*.md", "gates/**/*.md") for path in sorted(ROOT.glob(pattern))]


def anchors(text: str) -> set[str]:
    """GitHub's anchors of the headings outside of code."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file) if file else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text(encoding="utf-8")), link
