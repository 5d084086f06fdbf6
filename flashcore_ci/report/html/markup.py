"""Build HTML and SVG: ``tag`` escapes every ``str`` that is not ``Markup``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cache

from flashcore_ci.report import formatting

ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
UNCLOSED = frozenset({"meta", "input", "link"})
VOID = UNCLOSED | {"circle", "line", "path", "polyline", "rect", "use"}
BLOCKS = frozenset(
    ["div", "figure", "h2", "h3", "h4", "head", "header", "li", "main", "p", "section", "style", "svg", "table", "tr", "ul"]
)
NEWLINE = "\n"  # after a block it does not show, and it makes two versions of a page comparable line by line
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")


class Markup(str):
    """Safe HTML made by this module."""

    __slots__ = ()


Child = Markup | str | None


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """Return the element without ``None``. ``class_`` becomes class, and _ becomes -."""
    pairs = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in VOID:
        return Markup(f"<{name}{pairs}>" if name in UNCLOSED else f"<{name}{pairs}/>")
    return Markup(f"<{name}{pairs}>{join(children)}</{name}>{NEWLINE if name in BLOCKS else ''}")


def join(children: Iterable[Child]) -> Markup:
    """Concatenate the children and escape text."""
    return Markup("".join(child if isinstance(child, Markup) else text(child) for child in children if child is not None))


def table(head: Iterable[str], rows: Iterable[Markup], style: str = "list") -> Markup:
    """Return a table with a heading for each column."""
    headings = tag("tr", *(tag("th", name, scope="col") for name in head))
    return tag("table", tag("thead", headings), tag("tbody", *rows), class_=style)


def scrolling(label: str, child: Markup) -> Markup:
    """Return a region that the keyboard can scroll."""
    return tag("div", child, class_="scroll", tabindex="0", role="region", aria_label=label)


def text(plain: str) -> str:
    """Escape ``plain`` into one printable line."""
    if plain.isprintable():
        return plain.translate(ESCAPES)
    flat = "".join(" " if c.isspace() else c for c in plain)
    return "".join(c if c.isprintable() else formatting.printable(c) for c in flat).translate(ESCAPES)


def prose(plain: str) -> Markup:
    """Escape ``plain`` and turn its `code` into elements."""
    parts = formatting.CODE_SPAN.split(plain)
    return join(tag("code", part) if index % 2 else part for index, part in enumerate(parts))


def code(lines: Iterable[str]) -> Markup:
    """Escape lines of source and keep their blanks."""
    cleaned = ("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line.expandtabs(4)) for line in lines)
    return Markup("\n".join(line.translate(ESCAPES) for line in cleaned))


def number(value: float) -> str:
    """Format a coordinate to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0") if math.isfinite(value) else "0"


def _attribute(key: str, value: str | float) -> str:
    shown = value if isinstance(value, str) else number(value)
    return f' {_attribute_name(key)}="{text(shown)}"'


@cache
def _attribute_name(key: str) -> str:
    name = key.rstrip("_").replace("_", "-")
    if not NAME.fullmatch(name):
        raise ValueError(f"{key!r} is not an attribute name")
    return name
