"""Read definitions of flashinfer-bench and SOL-ExecBench: definition.json, workload.jsonl and solution.json."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flashcore_ci.bounded.complaints import complaint
from flashcore_ci.bounded.values import loads
from flashcore_ci.scaffold import foreign
from flashcore_ci.scaffold.foreign import Candidate, Case, ForeignError, Problem

MAX_SIZE, MAX_EXPRESSION, MAX_EXPONENT = 1 << 48, 200, 64
DTYPES = {
    *("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    *("int64", "int32", "int16", "int8", "bool"),
}
CPP = {*("cuda", "cpp", "cuda_cpp", "cutlass", "cudnn", "cublas")}
OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda base, exponent: base**exponent if abs(exponent) <= MAX_EXPONENT else _raise("its exponent is too large"),
}
Size = Annotated[int, Field(ge=0, le=MAX_SIZE)]
Word = Annotated[str, Field(pattern=foreign.WORD.pattern, max_length=80)]


class Table(BaseModel):
    """A table of these formats. Keys that do not matter here are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


class Axis(Table):
    """``axes``: a constant, a variable or an expression."""

    type: Literal["const", "var", "expr"]
    value: Size | None = None
    expression: Annotated[str, Field(max_length=MAX_EXPRESSION)] = ""


class Tensor(Table):
    """``inputs`` and ``outputs``. Without a shape it is a scalar."""

    shape: list[str] | None
    dtype: str


class Definition(Table):
    """definition.json."""

    name: str
    axes: dict[Word, Axis]
    inputs: Annotated[dict[Word, Tensor], Field(min_length=1)]
    outputs: Annotated[dict[Word, Tensor], Field(min_length=1)]
    reference: str
    custom_inputs_entrypoint: Word | None = None


class Input(Table):
    """``inputs`` of a workload."""

    type: Literal["random", "scalar", "safetensors", "custom"]
    value: int | float | bool | None = None


class Tolerance(Table):
    """``tolerance`` of a workload."""

    max_atol: Annotated[float, Field(gt=0)] = 1e-2


class Workload(Table):
    """A line of workload.jsonl."""

    axes: dict[Word, Size]
    inputs: dict[Word, Input]
    tolerance: Tolerance | None = None


class Source(Table):
    """One file of a solution."""

    path: str
    content: str


class Spec(Table):
    """How to build and call a solution."""

    entry_point: str
    language: str | None = None
    languages: list[str] = []
    destination_passing_style: bool = True
    binding: str | None = None
    compile_options: dict[str, list[str]] | None = None


class Solution(Table):
    """solution.json."""

    definition: str
    spec: Spec
    sources: Annotated[list[Source], Field(min_length=1)]


M = TypeVar("M", bound=Table)


def files_of(file: Path) -> tuple[Path, list[Path]]:
    """Return the workloads and the solutions of a definition: next to it, or in the folders of a flashinfer-bench data set."""
    if file.name == "definition.json":
        return file.with_name("workload.jsonl"), sorted(file.parent.glob("solution*.json"))
    place = len(file.parts) - 1 - file.parts[::-1].index("definitions")
    top, inner = Path(*file.parts[:place]), Path(*file.parts[place + 1 :])
    found = [
        each for each in sorted((top / "solutions").rglob("*.json")) if f'"{file.stem}"' in foreign.read_text(each, each.name)
    ]
    return (top / "workloads" / inner).with_suffix(".jsonl"), found


def read(file: Path, *, origin: str, most: int) -> Iterator[Problem]:
    """Yield a problem for each solution, or one for the reference. ForeignError for what cannot be imported."""
    definition = _record(Definition, foreign.read_text(file, file.name), file.name)
    name = foreign.named(definition.name, "the definition")
    _check(definition)
    jsonl, solutions = files_of(file)
    lines = foreign.read_text(jsonl, jsonl.name).splitlines()
    texts = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    workloads = [_workload(line, f"{jsonl.name} line {number}") for number, line in texts]
    if not workloads:
        raise ForeignError(f"{jsonl.name} has no workload")
    every = [_case(definition, workload, number) for number, workload in enumerate(workloads[:most], 1)]
    cases = tuple({repr(sorted(case.params.items())): case for case in reversed(every)}.values())[::-1]
    given = {k: (None if t.shape is None else tuple(t.shape), t.dtype) for k, t in definition.inputs.items()}
    is_custom = any(each.type == "custom" for workload in workloads for each in workload.inputs.values())
    tolerances = [workload.tolerance.max_atol for workload in workloads[:most] if workload.tolerance]
    choices: list[Path | None] = [*solutions] or [None]
    for solution in choices:
        suffix = "" if len(solutions) < 2 or solution is None else f"-{solution.stem}"  # noqa: PLR2004 - one needs no name
        yield Problem(
            name=foreign.named(f"{name}{suffix}", "the solution"),
            origin=origin,
            command="import",
            cases=cases,
            candidate=Candidate(entry="run") if solution is None else _candidate(definition, solution),
            source=definition.reference,
            inputs=given,
            outputs=tuple(definition.outputs),
            generator=definition.custom_inputs_entrypoint or "" if is_custom else "",
            tolerance=min(tolerances, default=None),
            omitted=len(workloads) - len(cases),
        )


def _record(model: type[M], text: str, what: str) -> M:
    return _checked(model, _json(text, what), what)


def _checked(model: type[M], value: object, what: str) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ForeignError(f"{what}: {key[:120]!r}: {complaint(first['type'], first.get('ctx', {}))}") from None


def _json(text: str, what: str) -> object:
    try:
        return loads(text, max_text=foreign.MAX_FILE)
    except (ValueError, RecursionError) as error:
        raise ForeignError(f"{what} is not valid JSON: {str(error)[:120]}") from None


def _workload(line: str, what: str) -> Workload:
    value = _json(line, what)
    if isinstance(value, dict) and isinstance(value.get("workload"), dict):  # a trace of flashinfer-bench holds the workload
        value = value["workload"]
    return _checked(Workload, value, what)


def _check(definition: Definition) -> None:
    for name, tensor in {**definition.inputs, **definition.outputs}.items():
        if tensor.dtype not in DTYPES:
            raise ForeignError(f"{name} has the dtype {tensor.dtype[:40]!r}, which cannot be drawn or compared here")
    if any(tensor.shape is None for tensor in definition.outputs.values()):
        raise ForeignError("an output is a scalar, and the gate compares tensors")
    count = len(foreign.parameters(foreign.parse(definition.reference, "the reference"), "run", "the reference"))
    if count != len(definition.inputs):
        raise ForeignError(f"run in the reference takes {count} inputs, and the definition names {len(definition.inputs)}")
    if definition.custom_inputs_entrypoint:
        tree = foreign.parse(definition.reference, "the reference")
        foreign.parameters(tree, definition.custom_inputs_entrypoint, "the reference")


def _case(definition: Definition, workload: Workload, number: int) -> Case:
    """Resolve every axis. Params are what differs between workloads: variable axes and scalars."""
    sources = {name: workload.inputs.get(name, Input(type="random")) for name in definition.inputs}
    scalars = {name: each.value for name, each in sources.items() if each.type == "scalar"}
    lacks = [name for name, tensor in definition.inputs.items() if (tensor.shape is None) != (scalars.get(name) is not None)]
    if any(each.type == "safetensors" for each in sources.values()):
        raise ForeignError("its inputs are in safetensors files, which cannot be drawn from a seed")
    if lacks:
        raise ForeignError(f"workload {number} gives {lacks[0]} a scalar, or lacks it, against the definition")
    axes: dict[str, int] = {}
    for name, axis in definition.axes.items():
        value = axis.value if axis.type == "const" else workload.axes.get(name)
        if axis.type == "expr":
            value = _evaluate(axis.expression, axes)
        if value is None:
            raise ForeignError(f"workload {number} gives the axis {name} no value")
        axes[name] = value
    for name, tensor in {**definition.inputs, **definition.outputs}.items():
        for axis_name in tensor.shape or ():
            if axis_name not in axes:
                raise ForeignError(f"{name} has the axis {axis_name[:40]!r}, which the definition does not have")
            if axes[axis_name] < 1:
                raise ForeignError(f"workload {number} gives the axis {axis_name} {axes[axis_name]}, so {name} has no element")
    params = {name: axes[name] for name, axis in definition.axes.items() if axis.type == "var"}
    return Case(id=f"{number}", params={**params, **scalars}, axes=axes)


def _candidate(definition: Definition, file: Path) -> Candidate:
    solution = _record(Solution, foreign.read_text(file, file.name), file.name)
    if solution.definition != definition.name:
        raise ForeignError(f"{file.name} solves {solution.definition[:60]!r}, not {definition.name}")
    spec, sources = solution.spec, {foreign.plain_path(each.path): each.content for each in solution.sources}
    name, _, entry = spec.entry_point.partition("::")
    if name not in sources or not foreign.WORD.fullmatch(entry) or len(sources) != len(solution.sources):
        raise ForeignError(f"{file.name}: its entry point {spec.entry_point[:60]!r} is not FILE::FUNCTION of one of its sources")
    languages = {*spec.languages, *([spec.language] if spec.language else [])}
    if not languages & CPP:
        foreign.parameters(foreign.parse(sources[name], name), entry, name)
        foreign.refuse_same(definition.reference, "run", sources[name], entry)
        return Candidate(kind="function", file=name, entry=entry, into=spec.destination_passing_style, sources=sources)
    if (spec.binding or ("torch" if spec.languages else "tvm-ffi")) != "torch":
        raise ForeignError(f"{file.name} has the binding {spec.binding or 'tvm-ffi'!r}, and only 'torch' can be built here")
    options = {key: list((spec.compile_options or {}).get(key, [])) for key in ("cflags", "cuda_cflags", "ld_flags")}
    return Candidate(kind="extension", entry=entry, into=spec.destination_passing_style, sources=sources, options=options)


def _evaluate(text: str, axes: Mapping[str, int]) -> int:
    """Evaluate whole-number arithmetic over axes. ForeignError for anything else."""

    def value_of(node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value <= MAX_SIZE:
            return node.value
        if isinstance(node, ast.Name) and node.id in axes:
            return axes[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value_of(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            value = OPERATORS[type(node.op)](value_of(node.left), value_of(node.right))
            return value if abs(value) <= MAX_SIZE else _raise("its value is too large")
        return _raise("only numbers, earlier axes and + - * / // % ** are allowed")

    try:
        value = value_of(ast.parse(text, mode="eval").body)
    except (SyntaxError, ArithmeticError, ValueError, RecursionError, MemoryError) as error:
        raise ForeignError(f"the expression {text[:60]!r} has no value: {str(error)[:120]}") from None
    if value != int(value) or value < 0:
        raise ForeignError(f"the expression {text[:60]!r} is {value}, not a size")
    return int(value)


def _raise(message: str) -> Any:
    raise ForeignError(message)
