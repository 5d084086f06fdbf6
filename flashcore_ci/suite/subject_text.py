"""Find mistakes in a subject's file without running it: names, arguments, and keys.

Only what is wrong in every run is a mistake. Whatever a condition, a loop over names or an import could make right is left to the worker.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, NamedTuple

from flashcore_ci.model.subject import FUNCTIONS, EntrySpec, SubjectFunction, required_keys

Function = ast.FunctionDef | ast.AsyncFunctionDef
CONDITIONAL = (
    *(ast.If, ast.IfExp, ast.Try, ast.While, ast.For, ast.BoolOp, ast.Match, ast.comprehension),
    *(ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)
RUNNING = ("inputs", "outputs", "run")
MEASURED = (*RUNNING, "reference")
Mistake = tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One file of a subject: the functions that it needs, and the parameters of its workloads by id."""

    needed: tuple[str, ...]
    workloads: Mapping[str, Mapping[str, object]]


class KeyRead(NamedTuple):
    """A key that a function reads from its parameter ``role``. ``said`` begins a message."""

    line: int
    key: str
    said: str
    role: str


def mistakes(text: str, part: Part) -> list[Mistake]:
    """List the mistakes with their lines. The worker reports what is not valid Python: its interpreter may be newer."""
    found, reads, known = _read(text, part.needed)
    return sorted({*found, *_unknown_keys(reads, known, part.workloads)})


@lru_cache(maxsize=1)
def _read(text: str, needed: tuple[str, ...]) -> tuple[list[Mistake], list[KeyRead], dict[str, set[str] | None]]:
    """Return what is wrong for every workload, the keys that functions read, and those that they return.

    A suite may have many subjects of one file.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [], [], {}
    functions = {node.name: node for node in tree.body if isinstance(node, Function)}
    found = list(_missing(tree, functions, needed))
    for name, node in functions.items():
        if name in FUNCTIONS and not node.decorator_list:
            found += _wrong_arguments(node, FUNCTIONS[name])
            found += _wrong_keys(node, FUNCTIONS[name].record)
    found += _different_outputs(functions)
    return found, list(_reads(functions)), {name: _keys_of(functions.get(name)) for name in ("inputs", "outputs")}


def _missing(tree: ast.Module, functions: Mapping[str, Function], needed: Sequence[str]) -> Iterator[Mistake]:
    if functions.keys() >= set(needed):
        return
    nodes = list(ast.walk(tree))
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)} | functions.keys()
    imported = {
        alias.asname or alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    }
    nested = {node.name for node in nodes if isinstance(node, Function)}
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    if "*" in imported or called & {"globals", "exec", "vars", "setattr"}:
        return
    known = bound | imported | nested
    others = [other for other in functions if other not in FUNCTIONS]
    close = {name: difflib.get_close_matches(name, others, n=1) for name in needed if name not in known}
    if not any(close.values()) and known >= {"build", "problem"} and not known & set(RUNNING):
        return  # what is only built, such as the planted kernel that does not compile
    for name, near in close.items():
        meant = f", did you mean {near[0]}?" if near else ""
        arguments = ", ".join(FUNCTIONS[name].parameters)
        yield functions[near[0]].lineno if near else 1, f"the function {name}({arguments}) is missing{meant}"


def _wrong_arguments(node: Function, expected: SubjectFunction) -> Iterator[Mistake]:
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    count, right = len(expected.parameters), f"def {node.name}({', '.join(expected.parameters)})"
    least = len(names) - len(node.args.defaults)
    keyword = [arg.arg for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if default is None]
    if isinstance(node, ast.AsyncFunctionDef):
        yield node.lineno, f"{node.name}() is async and would never run: write {right}"
    elif keyword:
        yield node.lineno, f"{node.name}() needs the keyword {keyword[0]}, which it is not given: write {right}"
    elif not least <= count <= (len(names) if node.args.vararg is None else count + len(names)):
        yield node.lineno, f"{node.name}() takes {len(names)} arguments, and gets {count}: write {right}"
    elif any(name in expected.parameters and name != expected.parameters[i] for i, name in enumerate(names[:count])):
        yield node.lineno, f"{node.name}() has its arguments in another order: write {right}"


def _returned(node: Function) -> list[ast.expr | None]:
    """List what the function itself returns."""
    found, rest = [], list[ast.AST](node.body)
    while rest:
        item = rest.pop()
        if isinstance(item, ast.Return):
            found.append(item.value)
        elif not isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            rest += ast.iter_child_nodes(item)
    return found


def _literal_keys(value: ast.expr | None) -> set[str] | None:
    """Return the keys of a dict as it is written, or None if not all are known."""
    if not isinstance(value, ast.Dict):
        return None
    keys = [key.value for key in value.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return set(keys) if len(keys) == len(value.keys) else None


def _keys_of(node: Function | None) -> set[str] | None:
    """Return the keys of all dicts that a function returns, or None if they differ or are not known."""
    sets = [_literal_keys(value) for value in _returned(node)] if node is not None else []
    return sets[0] if sets and all(keys is not None and keys == sets[0] for keys in sets) else None


def _wrong_keys(node: Function, record: type[Any] | None) -> Iterator[Mistake]:
    values = _returned(node)
    nothing = node.name in {"problem", "inputs", "outputs", "reference"} and all(_is_none(value) for value in values)
    if nothing and not any(isinstance(inner, ast.Raise | ast.Yield | ast.YieldFrom) for inner in ast.walk(node)):
        yield node.lineno, f"{node.name}() returns nothing: return a dict"
    for value in values if record is not None else ():
        yield from _compare(value, record, f"{node.name}()")
        if node.name == "build" and isinstance(value, ast.Dict):
            yield from _wrong_entries(value)


def _wrong_entries(value: ast.Dict) -> Iterator[Mistake]:
    for key, entries in zip(value.keys, value.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "entries" and isinstance(entries, ast.List):
            for entry in entries.elts:
                yield from _compare(entry, EntrySpec, "build(): entries")


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _compare(value: ast.expr | None, record: type[Any] | None, name: str) -> Iterator[Mistake]:
    keys = _literal_keys(value)
    if keys is None or value is None or record is None:
        return
    known = [field.name for field in fields(record) if field.name != "workload"]
    for key in sorted(keys - set(known)):
        yield value.lineno, f'{name}: unknown key "{key}"{_meant(key, known)}'
    for key in required_keys(record):
        if key not in keys:
            yield value.lineno, f'{name}: the key "{key}" is missing'


def _different_outputs(functions: Mapping[str, Function]) -> Iterator[Mistake]:
    made, right = (_keys_of(functions.get(name)) for name in ("outputs", "reference"))
    if made is not None and right is not None and made != right:
        line = functions["reference"].lineno
        yield (
            line,
            f"reference() returns {', '.join(sorted(right)) or 'nothing'}, and outputs() {', '.join(sorted(made)) or 'nothing'}",
        )


def _reads(functions: Mapping[str, Function]) -> Iterator[KeyRead]:
    for name in (name for name in ("problem", *MEASURED) if name in functions):
        node, inside = functions[name], list(ast.walk(functions[name]))
        names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        for argument, role in zip(names, FUNCTIONS[name].parameters, strict=False):
            for line, key in _read_keys(node, inside, argument):
                yield KeyRead(line, key, f'{name}() reads {argument}["{key}"], which', role)


def _unknown_keys(
    reads: Sequence[KeyRead], known: Mapping[str, set[str] | None], workloads: Mapping[str, Mapping[str, object]]
) -> Iterator[Mistake]:
    for line, key, said, role in reads:
        keys = known.get(role)
        if keys is not None and key not in keys:
            yield line, f"{said} {role}() does not return{_meant(key, keys)}"
        without = next((each for each, params in workloads.items() if key not in params), None) if role == "params" else None
        if without is not None:
            yield line, f"{said} workload {without} does not have{_meant(key, workloads[without])}"


def _read_keys(node: Function, inside: Sequence[ast.AST], name: str) -> Iterator[tuple[int, str]]:
    """Yield the keys that every call of the function, with these nodes ``inside``, reads from ``name``."""
    if any(isinstance(inner, ast.Name) and inner.id == name and not isinstance(inner.ctx, ast.Load) for inner in inside):
        return
    if any(
        isinstance(inner, ast.Subscript) and not isinstance(inner.ctx, ast.Load) and _is_name(inner.value, name)
        for inner in inside
    ):
        return
    rest = list[ast.AST](node.body)
    if any(isinstance(item, ast.If | ast.Try | ast.Match) for item in rest):  # it may return before
        rest = rest[: next(i for i, item in enumerate(rest) if isinstance(item, ast.If | ast.Try | ast.Match))]
    while rest:
        item = rest.pop()
        if isinstance(item, ast.Subscript) and _is_name(item.value, name) and isinstance(item.slice, ast.Constant):
            if isinstance(item.slice.value, str):
                yield item.lineno, item.slice.value
        elif not isinstance(item, CONDITIONAL):
            rest += ast.iter_child_nodes(item)


def _is_name(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Name) and value.id == name


def _meant(key: str, names: Sequence[str] | set[str] | Mapping[str, object]) -> str:
    close = difflib.get_close_matches(key, list(names), n=1)
    return f' (did you mean "{close[0]}"?)' if close else f" (known: {', '.join(sorted(names))})" if names else ""
