"""Text from outside, made safe to show. Control characters could move the cursor, hide text or start a command."""

from __future__ import annotations

import re

UNSEEN = re.compile("[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")
"""What JSON leaves as it is: C1, and characters that are invisible or turn the direction of text."""


def visible(text: str) -> str:
    """Escape what cannot be printed, but keep line ends and tabs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


def inert(text: str) -> str:
    """Break what GitHub reads as a command: ``::`` at the start of a line, and ``##[`` or ``##vso[`` anywhere."""
    return "".join(map(_inert, text.splitlines(keepends=True)))


def _inert(line: str) -> str:
    guarded = line.replace("::", ": :", 1) if line.lstrip().startswith("::") else line
    return guarded.replace("##[", "# #[").replace("##vso[", "# #vso[")
