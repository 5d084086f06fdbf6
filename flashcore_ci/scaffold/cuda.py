"""A kernel in a .cu file: read its signature, and write a launcher, a subject and a suite."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path, PurePosixPath
from pprint import pformat
from typing import Any

from flashcore_ci.scaffold import foreign, pairs, texts, writing
from flashcore_ci.scaffold.foreign import ForeignError, Problem

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
PARAMETER = re.compile(r"(?P<type>[\w\s:]+?)(?P<pointer>\s*\*\s*(?:__restrict__\s*)?|\s+)(?P<name>[A-Za-z_]\w*)")
LITERAL = re.compile(r"""\"(?:\\.|[^"\\\n])*\"|'(?:\\.|[^'\\\n])+'""")
C_BLOCK = re.compile(r'extern\s*"C"\s*\{')
BOUNDS = r"(?:__launch_bounds__\s*\([^)]*\)\s*)?"
ENTRY = re.compile(rf'(extern\s*"C"\s*)?__global__\s+{BOUNDS}void\s+{BOUNDS}(\w+)\s*\(([^)]*)\)')
C_TYPES = {
    **dict.fromkeys(("int", "int32_t", "signed", "signed int"), "c_int"),
    **dict.fromkeys(("unsigned", "unsigned int", "uint32_t"), "c_uint"),
    **dict.fromkeys(("long long", "int64_t", "long"), "c_longlong"),
    "size_t": "c_size_t",
    "float": "c_float",
    "double": "c_double",
    "bool": "c_bool",
}
SIZES = {
    **dict.fromkeys(("rows", "m", "batch", "height"), "first.shape[0]"),
    **dict.fromkeys(("cols", "columns", "k", "width", "hidden", "d", "dim"), "first.shape[-1]"),
}
"""What a whole number is likely to be, by its name. Any other is the number of elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of the entry function, as written and in parts."""

    text: str
    name: str
    type: str
    is_pointer: bool
    is_const: bool


def names(root: Path, reference: pairs.Place) -> list[tuple[str, str]]:
    """Return the reference's parameters without a default, each with its annotation."""
    file, name = reference
    found = foreign.parameters(foreign.parse(foreign.read_text(root / file, file), file), name, file)
    return [(arg.arg, getattr(arg.annotation, "id", "")) for arg in found]


def signature(text: str, name: str) -> list[Parameter]:
    """Read the parameters of an entry function. ForeignError for what a launcher cannot be written for."""
    found = _entries(text)
    if name not in found:
        raise ForeignError(f"there is no entry function {name} (there are: {', '.join(found) or 'none'})")
    is_mangled, parameters = found[name]
    if is_mangled:
        raise ForeignError(f'{name} has a mangled name: write extern "C" before __global__')
    return [_parameter(part) for part in parameters.split(",") if part.strip()]


def mangled(root: Path, file: str) -> str:
    """Name the entry functions whose symbols the text does not tell."""
    return ", ".join(name for name, (is_mangled, _) in _entries(foreign.read_text(root / file, file)).items() if is_mangled)


def _entries(text: str) -> dict[str, tuple[bool, str]]:
    plain = LITERAL.sub(lambda found: found[0] if found[0] == '"C"' else '""', COMMENT.sub(" ", text))
    found: dict[str, tuple[bool, str]] = {}
    for each in ENTRY.finditer(plain):  # a definition has the linkage of its declaration
        is_mangled = not (each[1] or _is_in_c(plain[: each.start()])) and found.get(each[2], (True, ""))[0]
        found[each[2]] = (is_mangled, each[3])
    return found


def _is_in_c(before: str) -> bool:
    parts = (re.findall("[{}]", before[block.end() :]) for block in C_BLOCK.finditer(before))
    return any(min(accumulate((1 if brace == "{" else -1 for brace in braces), initial=1)) > 0 for braces in parts)


def _parameter(text: str) -> Parameter:
    written = " ".join(text.split())
    found = PARAMETER.fullmatch(written)
    if not found:
        raise ForeignError(f"the parameter {written[:60]!r} is neither a pointer nor a number")
    words = [word for word in found["type"].split() if word != "const"]
    is_pointer = "*" in found["pointer"]
    if not is_pointer and " ".join(words) not in C_TYPES:
        raise ForeignError(f"the parameter {written[:60]!r} is neither a pointer nor a number")
    return Parameter(
        text=written, name=found["name"], type=" ".join(words), is_pointer=is_pointer, is_const="const" in found["type"].split()
    )


def make(pair: pairs.Pair, root: Path) -> Problem:
    """Make the problem of the reference. The kernel is compiled, not imported."""
    file, name = pair.kernel
    signature(foreign.read_text(root / file, file), name)
    return pairs.make(pair, root)


def write(
    problem: Problem, works: Mapping[str, Any], pair: pairs.Pair, root: Path, *, folder: str, extra: dict[str, str]
) -> tuple[str, tuple[str, ...]]:
    """Write subject, launcher and suite. Return the suite's path, and all paths."""
    file, name = pair.kernel
    text = foreign.read_text(root / file, file)
    parameters = signature(text, name)
    symbols = [name, *(other for other, (is_mangled, _) in _entries(text).items() if other != name and not is_mangled)]
    outputs = list(next(iter(works.values()))["outputs"])
    place = f"{folder}/{problem.name}"
    written = {
        f"{place}/subject.py": texts.definition(problem, works, folder=place, build=_build(problem, pair, place, symbols))
        + texts.fill("launched", name=name, arguments=_arguments(parameters, problem, outputs)),
        f"{place}/launch.cu": texts.fill(
            "launch_cu",
            name=name,
            file=file,
            parameters=", ".join(p.text for p in parameters),
            names=", ".join(p.name for p in parameters),
        ),
        f"{place}.toml": texts.suite(problem, {"definition": f"{place}/subject.py"}, ()),
        **extra,
    }
    writing.write_new(root, written)
    return f"{place}.toml", tuple(written)


def _build(problem: Problem, pair: pairs.Pair, place: str, symbols: list[str]) -> str:
    file, name = pair.kernel
    spec = {
        "library": f"lib{problem.name}.so",
        "launchers": [f"{place}/launch.cu"],
        "includes": [str(PurePosixPath(file).parent)],
        "binding": list(problem.files),
        "entries": [{"symbol": each, "source": file, "max_registers": 255, "dynamic_shared_bytes": 0} for each in symbols],
    }
    return texts.fill("build_cuda", spec=pformat(spec, width=texts.WIDTH, sort_dicts=False), entries=[name])


def _arguments(parameters: list[Parameter], problem: Problem, outputs: list[str]) -> str:
    """Match pointers with tensors: by name, then inputs to const and outputs to others, in order."""
    inputs = problem.inputs
    rest_in = [name for name, (shape, _) in inputs.items() if shape is not None and name not in {p.name for p in parameters}]
    rest_out = list(outputs)
    lines = []
    for each in parameters:
        if each.is_pointer:
            source = "inputs" if each.name in inputs or each.is_const else "outputs"
            rest = rest_in if source == "inputs" else rest_out
            if each.name not in inputs and not rest:
                raise ForeignError(f"no {source[:-1]} of the reference is left for the pointer {each.name}")
            name = each.name if each.name in inputs else rest.pop(0)
            lines.append(f"        ctypes.c_void_p({source}[{name!r}].data_ptr()),")
        else:
            value = f"inputs[{each.name!r}]" if each.name in inputs else SIZES.get(each.name.lower(), "elements")
            lines.append(f"        ctypes.{C_TYPES[each.type]}({value}),")
    if rest_out:
        raise ForeignError(f"the kernel has no pointer that is not const for the output {rest_out[0]}")
    return "\n".join(lines)
