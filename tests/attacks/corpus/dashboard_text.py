"""Text from evidence that becomes markup, an address or a command in the pages of the dashboard or in the digest."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from dashboards import HOSTILE, snapshot
from reading_html import VOID, read

from flashcore_ci.dashboard import digest, gate_page, machines, overview, page, runs, versions
from flashcore_ci.report.html import markup

TEXTS = (*HOSTILE[:3], *HOSTILE[4:6])
MARKS = ("<script>document", "<img", "<svg onload", "</title></style>", "\u202e", "\x1b", "\x9b", "\u2066", "\u200b", "\x07")
PAGES = (overview.render, versions.render, machines.render, gate_page.render, runs.render, runs.listed)


def _attack(name: str, text: str) -> Attack:
    def attempt(folder: Path) -> bool:
        made = snapshot(text, runs=12)
        contents = [render(made).decode("utf-8", "surrogatepass") for render in PAGES]
        contents += [each.decode() for each in runs.data(made).values()]
        written = digest.render(made, 30)
        marked = any(mark in content for content in contents if not content.startswith(("{", "[")) for mark in MARKS)
        unseen = any(not all(c.isprintable() or c == "\n" for c in content) for content in (*contents, written))
        raw = re.search(r"(?<!\\)[<>@]", written) is not None
        return marked or unseen or raw or any(_listens(content) for content in contents if content.startswith("<"))

    return Attack(name=name, attempt=attempt)


def _listens(content: str) -> bool:
    """Tell whether an element has a handler of events, or the page is not nested."""
    VOID.add("link")
    try:
        return any(name.startswith("on") for _, given in read(content).elements for name in given)
    except AssertionError:
        return True


def _member(numbers: random.Random) -> Attack:
    parts = [numbers.choice(TEXTS) for _ in range(numbers.randint(1, 2))]
    letters = "".join(numbers.choice("ab <>\"'&|`\u202b\x85") for _ in range(numbers.randint(0, 9)))
    return _attack(f"{len(parts)} texts and {letters!r}", f"{letters}<img src=x onerror=x>{''.join(parts)}")


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write every text as it is."""
    monkeypatch.setattr(markup, "text", str)
    monkeypatch.setattr(page, "shown", lambda text, most=0: text.encode("utf-8", "replace").decode())
    monkeypatch.setattr(digest, "escaped", str)


CLASS = AttackClass(
    name="text of evidence in the dashboard",
    attacks=tuple(_attack(f"text {number}: {text[:30]!r}", text) for number, text in enumerate(TEXTS)),
    member=_member,
    mutant=_mutant,
)
