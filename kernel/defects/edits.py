"""Edits of the package's Python code: planted defects of what no kernel does."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType

EDITS: Mapping[str, tuple[str, str, str]] = {
    "left-padding-ignored": ("_packed", "first = padding.clamp(min=0)", "first = padding.clamp(0, 0)"),
    "left-padding-twice": ("_packed", "used = (lengths - first)", "used = (lengths - 2 * first)"),
    "batch-index-ignored": (
        "_kvcache", "return batch_index.view(batch_index.shape[0], 1)", "return torch.arange(len(batch_index)).to(batch_index).view(-1, 1)"
    ),
    "rotary-position-late": ("_rotary", "return first.long()[:, None] + offset", "return first.long()[:, None] + offset + 1"),
    "rotary-other-pairs": ("_kvcache", "interleaved=rotary_interleaved,", "interleaved=not rotary_interleaved,"),
}  # fmt: skip
"""By name, a module of the package, a text that it has once, and what replaces it."""


@contextlib.contextmanager
def edit(defect: str) -> Iterator[None]:
    """Give the functions of the edited module their changed code, wherever they have been imported, and take it back."""
    module, changed = _compile(defect)
    kept = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
    }
    codes = {name: function.__code__ for name, function in kept.items()}
    try:
        for name, function in kept.items():
            function.__code__ = changed[name]
        yield
    finally:
        for name, function in kept.items():
            function.__code__ = codes[name]


@functools.cache
def _compile(defect: str) -> tuple[ModuleType, Mapping[str, CodeType]]:
    """Return the module, and the code of its functions with the edit."""
    name, old, new = EDITS[defect]
    module = importlib.import_module(f"flashcore.{name}")
    assert module.__file__ is not None
    text = inspect.getsource(module)  # as source: the worker refuses a subject that opens files as data
    if text.count(old) != 1:
        raise ValueError(f"{defect}: flashcore/{name}.py has {old!r} {text.count(old)} times and must have it once. Fix EDITS")
    changed = dict(vars(module))
    exec(compile(text.replace(old, new), module.__file__, "exec"), changed)  # noqa: S102 - our own file
    return module, {name: value.__code__ for name, value in changed.items() if isinstance(value, FunctionType)}
