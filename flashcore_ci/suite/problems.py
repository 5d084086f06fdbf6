"""Problems of a suite file, each with file, key and suggestion."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from flashcore_ci.bounded.complaints import complaint
from flashcore_ci.bounded.values import shorten
from flashcore_ci.suite.lines import Lines

M = TypeVar("M", bound=BaseModel)
MAX_PROBLEMS = 200
"""Lines of one file. More mistakes show when these are corrected."""
MAX_NAMES, MAX_WORD = 500, 120
NONE: Mapping[str, Any] = {}


def suggest(word: object, words: Iterable[str]) -> str:
    """Return `` (did you mean "..."?)``, else list ``words``."""
    names = sorted(words)[:MAX_NAMES]
    close = difflib.get_close_matches(str(word)[:MAX_WORD], [name for name in names if len(name) <= MAX_WORD], n=1)
    if close:
        return f' (did you mean "{close[0]}"?)'
    return shorten(f" (known: {', '.join(names)})") if names else ""


def key_of(name: str, index: int, table: Mapping[str, Any]) -> str:
    """Name a table of a list for a message: ``gate[3] (sol-sm)``."""
    name_in_file = table.get("id") or table.get("name")
    return f"{name}[{index}] ({name_in_file})" if isinstance(name_in_file, str) else f"{name}[{index}]"


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

    def correct(self, model: type[BaseModel], table: Any, key: str, inner: Mapping[str, Any] = NONE) -> Any:
        """Report unknown keys. Return the table with what the misspelt ones mean, so that what they hold is checked too."""
        if isinstance(table, list):
            keys = (key_of(key, index, item if isinstance(item, dict) else {}) for index, item in enumerate(table))
            return [self.correct(model, item, each) for each, item in zip(keys, table, strict=True)]
        if not isinstance(table, dict):
            return table
        fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
        below = {name: inner.get(name) or _table_in(annotation) for name, annotation in fields.items()}
        free, made = sorted(set(fields) - set(table)), {}
        for name, value in table.items():
            meant = name
            if name not in fields:
                if len(self.lines) == MAX_PROBLEMS:
                    continue
                meant = next(iter(difflib.get_close_matches(name[:MAX_WORD], free, n=1)), "")
                self.add(_path(key, (name,)), f'unknown key "{name}"{suggest(name, [meant] if meant else fields)}')
                free = [word for word in free if word != meant]
                twin = next(iter(difflib.get_close_matches(name[:MAX_WORD], fields, n=1)), "") if not meant else ""
                if (inside := below.get(twin)) is not None:  # the file has both names
                    self.correct(inside, value, _path(key, (name,)))
            place, inside = _path(key, (meant,)), below.get(meant)
            if meant not in {name, ""}:
                self.places.move(_path(key, (name,)), place)
            if inside is not None and get_origin(fields[meant]) is dict and isinstance(value, dict):
                made[meant] = {one: self.correct(inside, each, f"{place}.{one}") for one, each in value.items()}
            elif meant:
                made[meant] = value if inside is None else self.correct(inside, value, place)
        return made

    def read(self, model: type[M], table: Any, key: str) -> M | None:
        """Return ``table`` as a ``model``. Report mistakes."""
        try:
            return model.model_validate_json(json.dumps(self.correct(model, table, key), default=str))
        except ValidationError as error:
            for detail in error.errors(include_url=False)[:MAX_PROBLEMS]:
                self.add(_path(key, detail["loc"]), _message(detail))
        return None


def _path(key: str, location: tuple[str | int, ...]) -> str:
    known = (part for part in location if part != "[key]")  # which means that the key before it is wrong
    return "".join((key, *(f"[{part}]" if isinstance(part, int) else f".{part}" for part in known))).lstrip(".")


def _message(detail: Mapping[str, Any]) -> str:
    if detail["type"] == "missing":
        return f"{'a limit has a unit: ' if detail['loc'][-1] == 'unit' else ''}this key is missing"
    if detail["type"] == "enum":
        expected = str(detail["ctx"]["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
        return f'"{detail["input"]}" is not an allowed value{suggest(detail["input"], expected)}'
    return f"{complaint(detail['type'], detail.get('ctx', {}))}, not {_shown(detail['input'])}"


def _shown(value: Any) -> str:
    return shorten(json.dumps(value, ensure_ascii=False, default=str), MAX_WORD)


def _table_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model of a table or of a list of tables, if it has one."""
    while not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        if not parts:
            return None
        annotation = parts[-1]
    return annotation
