"""Find the line of a key in a suite file. ``tomllib`` does not tell."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.-]+)\s*\]")
KEY = re.compile(r"""\s*["']?([A-Za-z0-9_-]+)["']?\s*[.=]""")
LABEL = re.compile(r"^(\w+\[\d+\]) \(.*?\)(?=$|\.)")
LAST = re.compile(r"(\.[^.\[\]]*|\[\d+\])$")


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of keys such as ``gate[1].limits``."""

    by_key: dict[str, int] = field(default_factory=dict)

    def move(self, old: str, new: str) -> None:
        """Let ``new``, and what is in it, have the lines of ``old``."""
        old, new = (LABEL.sub(r"\1", key) for key in (old, new))
        below = (f"{old}.", f"{old}[")
        self.by_key.update({new + key[len(old) :]: n for key, n in self.by_key.items() if key == old or key.startswith(below)})

    def of(self, key: str) -> int | None:
        """Return the line of ``key``, else of the table that it is in. A list of tables has that of its first."""
        key = LABEL.sub(r"\1", key)
        key = f"{key}[0]" if f"{key}[0]" in self.by_key else key
        while key and key not in self.by_key:
            shorter = LAST.sub("", key)
            key = "" if shorter == key else shorter
        return self.by_key.get(key)


def lines_of(text: str) -> Lines:
    """Number the lines of tables and keys. A key within a list has the line of the list."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    prefix, quoted = "", False
    for number, line in enumerate(text.split("\n"), 1):
        was_quoted = quoted
        quoted ^= bool((line.count('"""') + line.count("'''")) % 2)
        if was_quoted:
            continue
        if header := HEADER.match(line):
            name = header[2]
            if header[1] == "[[":
                counts[name] = counts.get(name, -1) + 1
            first, dot, rest = name.partition(".")
            prefix = f"{first}[{counts[first]}]{dot}{rest}" if first in counts else name
            found.setdefault(prefix, number)
        elif key := KEY.match(line):
            found.setdefault(f"{prefix}.{key[1]}".lstrip("."), number)
    return Lines(found)
