"""A kernel and its reference, each a Python function of the checkout, as a problem."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashcore_ci.bounded import files
from flashcore_ci.scaffold import foreign, local_imports
from flashcore_ci.scaffold.foreign import Candidate, Case, ForeignError, Problem

Place = tuple[str, str]
"""A file of the checkout, and a function in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What a user gives. ``given``: shape and dtype of each tensor, and each scalar, unless ``generator`` draws them."""

    name: str
    origin: str
    command: str
    kernel: Place
    reference: Place
    generator: Place | None = None
    given: dict[str, Any] = field(default_factory=dict)
    tolerance: float | None = None


def make(pair: Pair, root: Path) -> Problem:
    """Make the problem. ForeignError if one side reads the other, or their parameters do not fit."""
    (kernel_file, kernel), (reference_file, reference) = pair.kernel, pair.reference
    trusted = local_imports.closure(root, reference_file)
    if pair.generator is not None:
        trusted = tuple(dict.fromkeys((*trusted, *local_imports.closure(root, pair.generator[0]))))
    if kernel_file in trusted:
        why = "is the same file" if kernel_file == reference_file else f"imports {kernel_file}"
        raise ForeignError(f"the reference {reference_file} {why}, so both sides could be one: put them into separate files")
    kernel_text, reference_text = (foreign.read_text(root / name, name) for name in (kernel_file, reference_file))
    needed = [arg.arg for arg in foreign.parameters(foreign.parse(reference_text, reference_file), reference, reference_file)]
    if not needed:
        raise ForeignError(f"the reference {reference} takes no inputs, so there is nothing to compare")
    is_python = not kernel_file.endswith(".cu")
    candidate = Candidate(kind="function", file=kernel_file, entry=kernel)
    if is_python:
        taken = [arg.arg for arg in foreign.parameters(foreign.parse(kernel_text, kernel_file), kernel, kernel_file)]
        foreign.refuse_same(reference_text, reference, kernel_text, kernel)
        if len(taken) < len(needed):
            raise ForeignError(f"{kernel} takes {len(taken)} inputs, and {reference} takes {len(needed)}")
        written, local = tuple(taken[len(needed) :]), local_imports.closure(root, kernel_file)
        candidate = Candidate(
            kind="function", file=kernel_file, entry=kernel, into=bool(written), written=written, files=local[1:]
        )
    if not pair.generator and (lacking := [name for name in needed if name not in pair.given]):
        raise ForeignError(f"the input {lacking[0]} of {reference} is not given")
    is_seeded = pair.generator is not None and _takes_seed(root, pair.generator)
    axes = {f"{n}_{i}": s for n in needed for i, s in enumerate(_shape(pair.given.get(n)) or ())}
    scalars = {name: pair.given[name] for name in needed if name in pair.given and _shape(pair.given[name]) is None}
    inputs: dict[str, tuple[tuple[str, ...] | None, str]] = {}
    for name in needed:
        shape = _shape(pair.given.get(name))
        if shape is not None:
            inputs[name] = (tuple(f"{name}_{i}" for i in range(len(shape))), pair.given[name][1])
        else:
            inputs[name] = ((), "float32") if pair.generator else (None, "float32")
    digests = {name: files.sha256(root / name) for name in trusted}
    return Problem(
        name=pair.name,
        origin=pair.origin,
        command=pair.command,
        cases=(Case(id="1", params={**axes, **scalars}, axes=axes),),
        candidate=candidate,
        files=digests,
        entry=reference,
        inputs=inputs,
        generator=pair.generator[1] if pair.generator else "",
        is_seeded=is_seeded,
        modules=tuple(dict.fromkeys((reference_file, *([pair.generator[0]] if pair.generator else ())))),
        tolerance=pair.tolerance,
    )


def _takes_seed(root: Path, generator: Place) -> bool:
    """Tell whether the function that draws inputs takes a seed. ForeignError if it needs more."""
    file, name = generator
    taken = foreign.parameters(foreign.parse(foreign.read_text(root / file, file), file), name, file)
    if len(taken) > 1:
        raise ForeignError(
            f"{name} in {file} takes {len(taken)} values, and a function that draws inputs takes a seed or nothing"
        )
    return bool(taken)


def _shape(value: Any) -> tuple[int, ...] | None:
    return value[0] if isinstance(value, tuple) else None
