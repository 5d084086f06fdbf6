"""Problems of a suite file, each with file, key and suggestion."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from flashcore_ci.bounded.complaints import complaint
from flashcore_ci.bounded.values import shorten
from flashcore_ci.suite.lines import Lines

M = TypeVar("M", bound=BaseModel)
MAX_PROBLEMS = 200
"""Lines of one file. More mistakes show when these are corrected."""
MAX_NAMES, MAX_WORD = 500, 120


def suggest(word: object, words: Iterable[str]) -> str:
    """Return `` (did you mean "..."?)``, else list ``words``."""
    names = sorted(words)[:MAX_NAMES]
    close = difflib.get_close_matches(str(word)[:MAX_WORD], [name for name in names if len(name) <= MAX_WORD], n=1)
    if close:
        return f' (did you mean "{close[0]}"?)'
    return shorten(f" (known: {', '.join(names)})") if names else ""


@dataclass(slots=True)
class Problems:
    """All problems of one file, as found."""

    file: str
    lines: list[str] = field(default_factory=list)
    places: Lines = field(default_factory=Lines)

    def add(self, key: str, message: str) -> None:
        """Report ``message`` at ``key`` (empty: the file), with the line if it is known."""
        if len(self.lines) < MAX_PROBLEMS:
            line = self.places.of(key)
            place = f"{self.file}:{line}" if line else self.file
            self.add_line(": ".join(part for part in (place, key, message) if part))

    def add_line(self, line: str) -> None:
        """Report a problem of another file."""
        if len(self.lines) < MAX_PROBLEMS and shorten(line) not in self.lines:
            self.lines.append(shorten(line))

    def read(self, model: type[M], table: Any, key: str) -> M | None:
        """Return ``table`` as a ``model``. Report mistakes, and drop unknown keys to check the rest."""
        try:
            return model.model_validate_json(json.dumps(table, default=str))
        except ValidationError as error:
            details = error.errors(include_url=False)
        for detail in details[:MAX_PROBLEMS]:
            self.add(_path(key, detail["loc"]), _message(model, detail))
        if len(details) > MAX_PROBLEMS or any(detail["type"] != "extra_forbidden" for detail in details):
            return None
        for detail in details:
            table = _without(table, detail["loc"])
        return model.model_validate_json(json.dumps(table, default=str))


def _path(key: str, location: tuple[str | int, ...]) -> str:
    known = (part for part in location if part != "[key]")  # which means that the key before it is wrong
    return "".join((key, *(f"[{part}]" if isinstance(part, int) else f".{part}" for part in known))).lstrip(".")


def _message(model: type[BaseModel], detail: Mapping[str, Any]) -> str:
    if detail["type"] == "extra_forbidden":
        return f'unknown key "{detail["loc"][-1]}"{suggest(detail["loc"][-1], _fields(model, detail["loc"][:-1]))}'
    if detail["type"] == "missing":
        return f"{'a limit has a unit: ' if detail['loc'][-1] == 'unit' else ''}this key is missing"
    if detail["type"] == "enum":
        expected = str(detail["ctx"]["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
        return f'"{detail["input"]}" is not an allowed value{suggest(detail["input"], expected)}'
    return f"{complaint(detail['type'], detail.get('ctx', {}))}, not {_shown(detail['input'])}"


def _shown(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False, default=str), MAX_WORD)


def _fields(model: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    for part in location:
        if isinstance(part, str) and part in model.model_fields:
            model = _table_in(model.model_fields[part].annotation)
    return list(model.model_fields)


def _table_in(annotation: Any) -> type[BaseModel]:
    while not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        annotation = [part for part in get_args(annotation) if part is not type(None)][-1]
    return annotation


def _without(table: Any, location: tuple[str | int, ...]) -> Any:
    first, *rest = location
    if isinstance(table, list):
        return [_without(item, tuple(rest)) if index == first else item for index, item in enumerate(table)]
    if not rest:
        return {key: value for key, value in table.items() if key != first}
    return {key: _without(value, tuple(rest)) if key == first else value for key, value in table.items()}
