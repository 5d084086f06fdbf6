"""Records to JSON and back. An unknown key, a wrong type, an absent field and NaN are errors."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, SchemaValidator, to_json

from flashcore_ci.bounded.complaints import complaint
from flashcore_ci.bounded.files import MAX_RECORD
from flashcore_ci.bounded.values import loads, shorten
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.text import UNSEEN

T = TypeVar("T")
OPTIONAL_FIELDS = frozenset(
    {
        *("base", "histograms", "thread", "block", "count", "finding", "judged_commit"),
        *("preprocessed", "host_objects", "dependencies", "machine_class", "trust", "candidate"),
        *("codes", "accepts", "head", "compile", "defaults"),
        *("estimated", "output_shapes", "hidden_symbols", "peak", "shard_index"),
    }
)
"""Fields that are newer than committed recordings or than reports of the last version. Only these may be absent, and then have their default."""
CONTAINERS = frozenset({dict, list})
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def _demand_fields(record: Any) -> SchemaValidator:
    """Return a validator that demands all fields but the optional ones. It is fast, and does not say what is absent."""

    def demand(schema: Any) -> Any:
        if isinstance(schema, list):
            return [demand(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        if schema.get("type") == "dataclass-field" and schema["name"] not in OPTIONAL_FIELDS:
            inner = schema["schema"]
            schema = {**schema, "schema": inner["schema"] if inner["type"] == "default" else inner}
        return {key: value if key == "metadata" else demand(value) for key, value in schema.items()}

    return SchemaValidator(demand(_adapter(record).core_schema))


_complete: Callable[[Any], SchemaValidator] = cache(_demand_fields)


def encode(record: Any) -> bytes:
    """Encode as indented JSON, equal bytes for equal records. ValueError for NaN and infinity.

    Half of a surrogate pair, which file names may contain, becomes ``?``. What cannot be seen, and what GitHub takes for a command,
    is escaped.
    """
    plain = _adapter(type(record)).dump_python(record, mode="json")
    text = indented(plain).replace("##[", "\\u0023#[").replace("##vso[", "\\u0023#vso[")
    if not text.isascii() or "\x7f" in text:
        text = UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)
    return f"{text}\n".encode(errors="replace")


def indented(plain: Any) -> str:
    """Write a list or a table as ``json.dumps`` does with ``indent=1``. Rust takes a tenth of the time, and writes some numbers otherwise."""
    try:
        text = to_json(plain, indent=1).decode("utf-8")
    except PydanticSerializationError:  # half of a surrogate pair
        return json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=1)
    parts, done = [], 0
    for end in sorted(found.end() for pattern in _OTHER_NUMBERS for found in pattern.finditer(text)):
        start = text.rfind(" ", done, end) + 1
        parts += [text[done:start], json.dumps(float(text[start:end]), allow_nan=False)]
        done = end
    return "".join((*parts, text[done:]))


_OTHER_NUMBERS = tuple(re.compile(rf"{end}(?=,?\n)") for end in ("e-?[0-9]+", "0\\.0000[0-9]*", "NaN", "Infinity"))
"""At the end of a line, where a text has its quotation mark. Each begins with plain characters, so most of the text is skipped."""


def decode_part(shape: type[T], data: bytes) -> T:
    """Decode the fields of ``shape`` alone. ValueError if one is absent."""
    if len(data) > MAX_RECORD:
        raise ValueError(f"it is larger than {MAX_RECORD >> 20} MiB")
    return cast("T", _adapter(shape).validate_json(data))


def decode(record: type[T], data: bytes, *, where: str) -> T:
    """Decode a record. EvidenceError (one line) names the file as ``where``."""
    if len(data) > MAX_RECORD:
        raise EvidenceError(f"{where}: it is larger than {MAX_RECORD >> 20} MiB", fix="collect again, in several runs")
    try:
        parsed = loads(data)
        with contextlib.suppress(ValidationError):
            return cast("T", _complete(record).validate_json(data, strict=True, extra="forbid"))
        decoded = _adapter(record).validate_json(data, strict=True, extra="forbid")
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"]) or "the whole file"
        raise _decode_error(where, shorten(f"{path}: {complaint(first['type'], first.get('ctx', {}))}")) from None
    except ValueError as error:
        raise EvidenceError(f"{where}: not valid JSON: {error}", fix="collect or build again, or restore the file") from None
    absent = ".".join(_find_absent(parsed, _adapter(record).dump_python(decoded, mode="json")))
    if absent:
        raise _decode_error(where, f"{absent}: the field is absent")
    return cast("T", decoded)


def canonical(record: Any) -> bytes:
    """Encode for a digest: sorted, and without fields that have their default, so that newer optional fields change nothing."""
    plain = _adapter(type(record)).dump_python(record, mode="json", exclude_defaults=True)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def schema_of(record: type[Any]) -> dict[str, Any]:
    """Return the JSON schema of what ``encode`` writes."""
    schema = _adapter(record).json_schema(mode="serialization")
    for definition in (schema, *schema.get("$defs", {}).values()):
        if "properties" in definition:
            definition["required"] = list(definition["properties"])
            definition["additionalProperties"] = False
    return schema


def _decode_error(where: str, what: str) -> EvidenceError:
    return EvidenceError(f"{where}: {what}", fix="collect or build again, or restore the file")


def _find_absent(data: Any, complete: Any) -> tuple[str, ...]:
    """Return the path to the first key that ``data`` lacks, or (): such a file was cut."""
    if isinstance(complete, dict):
        absent = complete.keys() - data.keys() - OPTIONAL_FIELDS if len(data) < len(complete) else ()
        if absent:
            return (min(absent),)
        for key, inner in complete.items():
            if type(inner) in CONTAINERS and key in data and (path := _find_absent(data[key], inner)):
                return (key, *path)
        return ()
    for index, (part, inner) in enumerate(zip(data, complete, strict=True)):
        if type(inner) in CONTAINERS and (path := _find_absent(part, inner)):
            return (str(index), *path)
    return ()
