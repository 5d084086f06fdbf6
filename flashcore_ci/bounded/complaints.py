"""What a wrong value is told, by the kind of mistake that pydantic names. Its own text is for programmers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DAY = "a day such as 2026-12-31 is needed"
NEEDED = {
    "string_type": "text in quotes is needed",
    "int_type": "a whole number is needed",
    "int_from_float": "a whole number is needed",
    "float_type": "a number is needed",
    "finite_number": "a finite number is needed",
    "bool_type": "true or false is needed",
    "list_type": "a list is needed",
    "tuple_type": "a list is needed",
    "dict_type": "a table is needed",
    "model_type": "a table is needed",
    "model_attributes_type": "a table is needed",
    "dataclass_type": "a table is needed",
    "date_type": DAY,
    "date_parsing": DAY,
    "date_from_datetime_parsing": DAY,
    "date_from_datetime_inexact": DAY,
    "greater_than": "more than {gt:g} is needed",
    "greater_than_equal": "at least {ge:g} is needed",
    "less_than_equal": "at most {le:g} is allowed",
    "string_too_short": "text is needed",
    "string_too_long": "at most {max_length} characters are allowed",
    "string_pattern_mismatch": "text {pattern} is needed",
    "too_short": "at least {min_length} value is needed",
    "too_long": "at most {max_length} values are allowed",
    "enum": "{expected} is needed",
    "literal_error": "{expected} is needed",
    "missing": "the field is absent",
    "unexpected_keyword_argument": "the field is unknown",
    "extra_forbidden": "the field is unknown",
    "none_required": "no value is needed",
    "json_invalid": "JSON is needed",
    "value_error": "{error}",
}
FORMS = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "of letters, digits, dot, dash and underscore",
    r"^[^\x00]+$": "without a zero byte",
    r"^[0-9]{1,9}(\.[0-9]{1,9}){0,9}$": "such as 12.8",
    r"^[0-9a-f]{64}$": "of 64 hexadecimal digits",
    r"^[0-9a-f]{12}\.\.[0-9a-f]{12}$": "with two digests, as in the verdict,",
}
"""Patterns in words."""


def complaint(kind: str, context: Mapping[str, Any]) -> str:
    """Say what is needed instead of a value with this mistake."""
    given = {name: FORMS.get(value, f"of the form {value}") if name == "pattern" else value for name, value in context.items()}
    return NEEDED.get(kind, "another value is needed").format(**given)
