"""Decode JSON from outside, and refuse what grows in memory: a few bytes can make a large object or a deep one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, cast

MAX_CONTAINERS = 200_000
MAX_VALUES = 1_000_000
"""Of one document. The largest that is committed has 16,000 containers and 90,000 values."""
MAX_ITEMS = 100_000
"""Of one list or table."""
MAX_DEPTH = 40
MAX_TEXT = 4096
"""Characters of one text. The longest that is committed has 231."""
MAX_MESSAGE = 1000
KINDS: tuple[Any, ...] = (dict, list, str, int)
_NUMBERS = frozenset({float, int, bool})


def loads(data: bytes | str, *, max_text: int = MAX_TEXT) -> Any:
    """Decode JSON of a bounded size. ValueError for what is invalid, given twice, too many, too deep or too long."""
    refuse_many(data)
    hooks: Any = {"parse_constant": _refuse_constant, "parse_float": _finite}
    try:
        value = json.loads(data, object_pairs_hook=_refuse_duplicates, **hooks)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        if "Exceeds the limit" in str(error):  # Python's own, of the digits of a whole number
            raise ValueError("a whole number is too large for a number") from None
        raise
    refuse_large(value, max_text=max_text)
    return value


def refuse_many(data: bytes | str) -> None:
    """ValueError if a document has too many containers or values. Brackets in texts count too."""
    text = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if text.count(b"{") + text.count(b"[") > MAX_CONTAINERS or text.count(b",") > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_CONTAINERS} lists and tables, or {MAX_VALUES} values")


def refuse_large(value: Any, *, max_text: int = MAX_TEXT) -> None:
    """ValueError if a decoded value is deep, or holds a long text, a long list or a huge number."""
    level, depth = [value], 0
    while level:  # one level at a time, and one kind at a time: the loops are those of C
        present = {*map(type, level)}
        tables, lists, texts, numbers = (
            [item for item in level if type(item) is kind] if kind in present else [] for kind in KINDS
        )
        if depth > MAX_DEPTH and (tables or lists):
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        for group in (tables, lists, [*chain.from_iterable(tables)]):
            refuse_long(max(group, key=len, default=""))
        refuse_long(max(texts, key=len, default=""), max_text=max_text)
        refuse_long(max(numbers, key=abs, default=0))
        level = [*chain.from_iterable(lists), *chain.from_iterable(table.values() for table in tables)]
        depth += 1


def refuse_long(value: Any, *, max_text: int = MAX_TEXT) -> None:
    """ValueError for a text, list, table or whole number that is too long."""
    if isinstance(value, str) and len(value) > max_text:
        raise ValueError(f"a text has {len(value)} characters, and {max_text} are allowed: {value[:40]!r}...")
    if isinstance(value, list | dict) and len(value) > MAX_ITEMS:
        raise ValueError(f"a list has {len(value)} items, and {MAX_ITEMS} are allowed")
    if isinstance(value, int) and value.bit_length() > 64:  # noqa: PLR2004 - what other programs read
        raise ValueError("a whole number has more than 64 bits")


def weigh(record: object, limit: int) -> int:
    """Count the characters of all texts in a record, repeated ones too, up to ``limit``. Any other value counts 8."""
    total, rest, read = 0, [record], cast("Callable[[Any], Any]", cache(_parts_of))
    while rest and total < limit:
        item = rest.pop()
        if isinstance(item, str):
            total += len(item) + 8
        elif isinstance(item, tuple) and _NUMBERS.issuperset(map(type, item)):
            total += 8 * len(item)
        elif isinstance(item, tuple):
            rest += item
        elif (parts := read(type(item))) is not None:
            rest += parts(item)
        else:
            total += 8
    return min(total, limit)


def _parts_of(kind: type) -> Callable[[Any], tuple[Any, ...]] | None:
    """Return how to read all fields of a record at once, or None."""
    names = tuple(getattr(kind, "__dataclass_fields__", ()))
    if len(names) > 1:
        return attrgetter(*names)
    return (lambda item: tuple(getattr(item, name) for name in names)) if is_dataclass(kind) else None


def shorten(text: str, limit: int = MAX_MESSAGE) -> str:
    """Return ``text``, or its beginning with dots."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large for a number")
    return value


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError(shorten(f"a key occurs twice among {sorted(key for key, _ in pairs)}"))
    return record
