"""HTML and SVG that cannot be injected into: text is escaped where an element is made, and only ``Markup`` is not.

Whatever a kernel, a compiler or a file name says is a ``str`` and stays text; nothing but ``tag`` and ``join`` makes ``Markup``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from flashcore_ci.report import formatting

ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
VOID = frozenset({"meta", "input", "circle", "line", "path", "polyline", "rect", "use"})
BLOCKS = frozenset(
    {"div", "figure", "h2", "h3", "h4", "head", "header", "li", "main", "p", "section", "style", "svg", "table", "tr", "ul"}
)
NEWLINE = "\n"  # behind a block it is no blank, and two versions of a page can be compared
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")


class Markup(str):
    """Markup that was made here, and so is safe."""

    __slots__ = ()


Child = Markup | str | None


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """The element with its children. ``None`` leaves a child or an attribute out.

    Attributes are named as in HTML, but for a final underscore (``class_``) and for underscores, which become hyphens.
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in VOID:
        return Markup(f"<{name}{given}>" if name in {"meta", "input"} else f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>{NEWLINE if name in BLOCKS else ''}")


def join(children: Iterable[Child]) -> Markup:
    """The children one after the other, text escaped."""
    return Markup("".join(child if isinstance(child, Markup) else text(child) for child in children if child is not None))


def text(plain: str) -> str:
    """``plain`` as text in one line: no control character, no half of a surrogate pair, no change of direction."""
    if plain.isprintable():
        return plain.translate(ESCAPES)
    flat = "".join(" " if c.isspace() else c for c in plain)
    return "".join(c if c.isprintable() else formatting.printable(c) for c in flat).translate(ESCAPES)


def code(lines: Iterable[str]) -> Markup:
    """Lines of source, their blanks kept."""
    cleaned = ("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line.expandtabs(4)) for line in lines)
    return Markup("\n".join(line.translate(ESCAPES) for line in cleaned))


def number(value: float) -> str:
    """A coordinate, short: a tenth of a pixel is more than anyone sees."""
    return f"{value:.1f}".removesuffix(".0") if math.isfinite(value) else "0"


def _attribute(key: str, value: str | float) -> str:
    name = key.rstrip("_").replace("_", "-")
    if not NAME.fullmatch(name):
        raise ValueError(f"{key!r} is no attribute")
    shown = value if isinstance(value, str) else number(value)
    return f' {name}="{text(shown)}"'
