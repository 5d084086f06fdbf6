"""How a kernel is compiled: a closed list of settings. No text of a subject or a suite becomes an option of the compiler."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from flashcore_ci.model.devices import ARCHITECTURES, GPUS, best

STANDARDS = ("c++17", "c++20")
LEVELS = (0, 1, 2, 3)
LIBRARIES = ("cublas", "cudnn", "cutlass")
CHOICES: dict[str, Sequence[object]] = {
    "standard": STANDARDS,
    "optimization": LEVELS,
    "architectures": tuple(ARCHITECTURES),
    "libraries": LIBRARIES,
}
MAX_DEFINES, MAX_DEFINE = 50, 120
_DEFINE = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:=-?[A-Za-z0-9_.]+(?:::[A-Za-z0-9_]+)*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """The settings of one subject. Empty ``architectures``: whatever suits the suite's device.

    ``defines`` are ``NAME`` or ``NAME=VALUE``. ``libraries`` are found on the machine and hashed.
    """

    architectures: tuple[str, ...] = ()
    standard: str = "c++17"
    optimization: int = 3
    fast_math: bool = False
    flush_denormals: bool = False
    precise_division: bool = True
    precise_square_root: bool = True
    fused_multiply_add: bool = True
    extended_lambda: bool = False
    relaxed_constexpr: bool = False
    hidden_symbols: bool = False
    defines: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    @property
    def architecture(self) -> str:
        """The one architecture of options that ``for_device`` returned."""
        (only,) = self.architectures
        return only


DEFAULTS = CompileOptions()


def mistakes(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield every mistake in a table of settings."""
    types = {field.name: type(field.default) for field in fields(CompileOptions)}
    for key, value in given.items():
        if key not in types:
            yield f'unknown option "{str(key)[:MAX_DEFINE]}"{_suggest(str(key), types)}'
        elif types[key] is tuple:
            yield from _mistakes_in_list(key, value)
        elif type(value) is not types[key]:
            yield f"{key}: it is {_shown(value)}, and must be {_nouns(types[key])}"
        elif key in CHOICES and value not in CHOICES[key]:
            yield f"{key}: {_shown(value)} is not one of {', '.join(map(str, CHOICES[key]))}"


def read(given: Mapping[str, Any]) -> CompileOptions:
    """Read a table of settings. ValueError with the first mistake."""
    for mistake in mistakes(given):
        raise ValueError(mistake)
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return replace(DEFAULTS, **values)


def for_device(options: CompileOptions, device: str) -> CompileOptions:
    """Choose the one architecture for a GPU by NVML's name. ValueError if none suits it."""
    gpu = GPUS.get(device)
    if gpu is None:
        if len(options.architectures) == 1:
            return options
        known = f"the device {device[:MAX_DEFINE]} is not known, so `architectures` must name exactly one"
        raise ValueError(f"{known}. It names {', '.join(options.architectures) or 'none'}")
    names = options.architectures or tuple(ARCHITECTURES)
    chosen = best(gpu.capability, names)
    if chosen is None:
        what = f"it is built for {', '.join(names)} only, and {device} has compute capability {gpu.capability}"
        raise ValueError(f"{what}: name another device in [ridge], or add an architecture if the kernel runs there")
    return replace(options, architectures=(chosen.name,))


def _mistakes_in_list(key: str, value: object) -> Iterator[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
        yield f"{key}: it is {_shown(value)}, and must be a list of texts"
        return
    names = [part.partition("=")[0] for part in value]
    for index, part in enumerate(value):
        if names[index] in names[:index]:
            yield f"{key}: {_shown(names[index])} is given twice"
        elif key == "defines":
            yield from _mistakes_in_define(part)
        elif part not in CHOICES[key]:
            yield f"{key}: {_shown(part)} is not known{_suggest(part, CHOICES[key])}"
    if len(value) > MAX_DEFINES:
        yield f"{key}: it has {len(value)} entries, and {MAX_DEFINES} are allowed"


def _mistakes_in_define(text: str) -> Iterator[str]:
    """A value such as ``__LINE__`` would let code depend on what no digest covers. All such names are reserved."""
    if len(text) > MAX_DEFINE or not _DEFINE.fullmatch(text):
        yield f"defines: {_shown(text)} is not NAME or NAME=VALUE with a number or a name as value"
        return
    for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text):
        if word.startswith("_") or "__" in word:
            yield f"defines: {_shown(text)} has the name {word}, which is reserved for the compiler"


def _suggest(word: str, words: Sequence[object] | Mapping[str, Any]) -> str:
    known = sorted(map(str, words))
    close = difflib.get_close_matches(word[:MAX_DEFINE], known, n=1)
    return f' (did you mean "{close[0]}"?)' if close else f" (known: {', '.join(known)})"


def _shown(value: object) -> str:
    return repr(value)[:MAX_DEFINE]


def _nouns(kind: type) -> str:
    return {bool: "true or false", int: "a whole number", str: "a text"}[kind]
