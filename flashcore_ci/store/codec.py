"""Records to JSON and back, strict both ways: an unknown key, a wrong type, a missing field or NaN is an error."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from flashcore_ci.model.errors import EvidenceError

T = TypeVar("T")


@cache
def _adapter(record: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(record)


def encode(record: Any) -> bytes:
    """The record as indented JSON with a final newline; the same record always gives the same bytes."""
    return bytes(_adapter(type(record)).dump_json(record, indent=1)) + b"\n"


def decode(record: type[T], data: bytes, *, where: str) -> T:
    """The record that ``data`` holds. ``where`` names the file in the error (EvidenceError, one line)."""
    try:
        _refuse_ambiguous(data)
        decoded: T = _adapter(record).validate_json(data, strict=True, extra="forbid")
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise EvidenceError(f"{where}: {path}: {first['msg']}", fix="collect again; the file was altered or is of another version") from None
    except (ValueError, RecursionError) as error:
        raise EvidenceError(f"{where}: not valid JSON: {error}", fix="collect again; the file was cut or altered") from None
    return decoded


def schema_of(record: type[Any]) -> dict[str, Any]:
    """The record's JSON schema, for those who read our files with other tools."""
    return _adapter(record).json_schema(mode="serialization")


def _refuse_ambiguous(data: bytes) -> None:
    """Raise ValueError for what JSON parsers disagree about: NaN, infinity, a key given twice."""
    json.loads(data, parse_constant=_refuse_constant, object_pairs_hook=_refuse_twice)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"a key is given twice among {sorted(keys)}")
    return dict(pairs)
