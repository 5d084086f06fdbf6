"""Start with a kernel of one's own: write subject, suite, workflow and a line of .gitignore."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashcore_ci.bounded import files
from flashcore_ci.model.errors import SuiteError, UsageError
from flashcore_ci.run import host
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.scaffold import cuda, estimating, foreign, importing, pairs, texts, writing
from flashcore_ci.scaffold.foreign import ForeignError, Problem

FOLDER = "gates"
WORKFLOW = ".github/workflows/kernel-gate.yml"
DRAWERS = ("get_inputs", "make_inputs", "example_inputs", "inputs")
VECTORS = re.compile(r"(.*_)?(w|weight|bias|b|gamma|beta|scale|scales)[0-9]*")
GUESSES = ("rows", "square", "flat")
DTYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "bool",
)
INPUT = re.compile(
    r"(?P<name>[A-Za-z_]\w*)=(?:(?P<dtype>[a-z]\w*):(?P<shape>[1-9][0-9]*(x[1-9][0-9]*)*)|(?P<value>-?[0-9]{1,18}(\.[0-9]+)?(e-?[0-9]{1,2})?))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What was written, and what a person must look at."""

    suite: str
    files: tuple[str, ...]
    notes: tuple[str, ...]
    checks: int


def start(
    kernel: str,
    reference: str,
    request: Request,
    progress: Progress,
    *,
    name: str | None,
    drawer: str | None,
    given: Sequence[str],
) -> Started:
    """Write everything for one kernel. Nothing that exists is overwritten. UsageError and SuiteError name the mistake."""
    root = request.root
    try:
        sides = [place_of(text, what, root) for text, what in ((kernel, "the kernel"), (reference, "the reference"))]
        chosen = foreign.named(name or sides[0][1], "the name")
        pair = pairs.Pair(
            name=chosen,
            origin=f"{sides[0][0]}::{sides[0][1]}",
            command="init",
            kernel=sides[0],
            reference=sides[1],
            generator=_drawer(drawer, sides[1][0], root) if drawer or not given else None,
            given=_inputs(given, sides[1], root, drawer),
        )
        is_cuda = sides[0][0].endswith(".cu")
        problem, works, note = _probe(pair, request, progress, is_cuda=is_cuda)
        is_gated = (root / WORKFLOW).exists()
        extra = {} if is_gated else {WORKFLOW: texts.fill("workflow", suite=f"{FOLDER}/{chosen}.toml")}
        if is_cuda:
            suite, written = cuda.write(problem, works, pair, root, folder=FOLDER, extra=extra)
        else:
            suite = importing.write_subject(problem, dict(works), root, FOLDER, extra=extra)
            written = (suite, *(f"{FOLDER}/{chosen}/{side}.py" for side in ("definition", "candidate")), *extra)
    except ForeignError as error:
        raise UsageError(str(error), fix="flashcore-ci init --help") from None
    added = [".gitignore"] if writing.ignore_runs(root) else []
    plan = make_plan(load_suite(replace(request, suite=Path(suite))), replace(request, suite=Path(suite)), lambda _: None)
    ungated = f"{WORKFLOW} exists and was not changed: add a step that gates {suite}" if is_gated else ""
    return Started(
        suite=suite, files=(*written, *added), notes=(note, ungated, *_notes(sides[0][0], root)), checks=len(plan.checks)
    )


def place_of(text: str, what: str, root: Path) -> pairs.Place:
    """Read FILE::FUNCTION. ForeignError unless it is a file of the checkout and a plain name."""
    file, separator, function = text.partition("::")
    if not separator or not file.strip("./") or not foreign.WORD.fullmatch(function):
        raise ForeignError(f"{what} is {text[:80]!r}, not FILE::FUNCTION")
    path = files.resolve(root / file)
    if not path.is_relative_to(files.resolve(root)) or not path.is_file():
        raise ForeignError(f"{what} {file[:80]!r} is not a file in {root}")
    return foreign.plain_path(path.relative_to(files.resolve(root)).as_posix()), function


def _drawer(drawer: str | None, reference: str, root: Path) -> pairs.Place | None:
    """Return the function that draws inputs: the one that is named, or a usual name next to the reference."""
    if drawer is not None:
        return place_of(drawer, "the function that draws inputs", root)
    tree = foreign.parse(foreign.read_text(root / reference, reference), reference)
    return next(((reference, name) for name in DRAWERS if foreign.definition_of(tree, name) is not None), None)


def _inputs(given: Sequence[str], reference: pairs.Place, root: Path, drawer: str | None) -> dict[str, Any]:
    """Read every ``--input``. ForeignError for one that would be ignored."""
    if given and drawer:
        raise ForeignError("--input and --inputs both describe the inputs: give one of them")
    found = list(map(_input, given))
    taken, names = [name for name, _ in cuda.names(root, reference)], [name for name, _ in found]
    for name in names:
        if name not in taken or names.count(name) > 1:
            what = f"is not an input of {reference[1]} (it has: {', '.join(taken) or 'none'})"
            raise ForeignError(f"--input {name} {what if name not in taken else 'is given twice'}")
    return dict(found)


def _input(text: str) -> tuple[str, Any]:
    found = INPUT.fullmatch(text)
    if not found:
        raise ForeignError(f"--input {text[:60]!r} is not NAME=DTYPE:SIZExSIZE or NAME=NUMBER, as x=float16:4096x1024")
    if number := found["value"]:
        return found["name"], int(number) if number.removeprefix("-").isdecimal() else float(number)
    if found["dtype"] not in DTYPES:
        raise ForeignError(f"--input {found['name']}: {found['dtype']} is not one of {', '.join(DTYPES)}")
    return found["name"], (tuple(map(int, found["shape"].split("x"))), found["dtype"])


def _probe(pair: pairs.Pair, request: Request, progress: Progress, *, is_cuda: bool) -> tuple[Problem, Mapping[str, Any], str]:
    """Call the reference once on fake tensors. Without a description of the inputs, try usual shapes."""
    root = request.root
    progress("calling the reference once, on tensors without data")
    missing = [] if pair.generator else [name for name in cuda.names(root, pair.reference) if name[0] not in pair.given]
    guesses = [""] if not missing else list(GUESSES)
    names = [f"{pair.name}{guess and '.'}{guess}" for guess in guesses]
    given = [{**dict(_guess(missing, guess)), **pair.given} for guess in guesses]
    tried = [
        (cuda if is_cuda else pairs).make(replace(pair, name=name, given=those), root)
        for name, those in zip(names, given, strict=True)
    ]
    with host.scratch_folder() as scratch:
        python = request.settings.python
        found = estimating.estimate(tried, python=python, scratch=scratch, root=root, isolated=False)
    for problem in tried:
        works = found[problem.name]
        if not isinstance(works, str):
            note = f"shapes of the inputs are a guess: {', '.join(name for name, _ in missing)}" if missing else ""
            _refuse_other_outputs(problem, works)
            return replace(problem, name=pair.name), works, note
    why = next(iter(found.values()))
    raise SuiteError(
        (f"{pair.reference[0]}::{pair.reference[1]}: one call failed: {why}",),
        fix="describe each input, as --input x=float16:4096x1024, or name a function that draws them with --inputs FILE::FUNCTION",
    )


def _refuse_other_outputs(problem: Problem, works: Mapping[str, Any]) -> None:
    """Further parameters of the kernel are its outputs, so there must be as many."""
    outputs = next(iter(works.values()))["outputs"]
    if problem.candidate.into and len(problem.candidate.written) != len(outputs):
        names = ", ".join(problem.candidate.written)
        raise ForeignError(
            f"the kernel takes {names} in addition to the inputs, and the reference returns {len(outputs)} tensors"
        )


def _guess(missing: Sequence[tuple[str, str]], guess: str) -> list[tuple[str, Any]]:
    """Guess what is not described: numbers by annotation, weights as vectors, and all else as matrices."""
    found: list[tuple[str, Any]] = []
    for name, annotation in missing:
        if annotation in ("int", "float", "bool"):
            found.append((name, {"int": 1, "float": 1.0, "bool": True}[annotation]))
        else:
            vector = guess == "flat" or (guess == "rows" and VECTORS.fullmatch(name))
            found.append((name, ((1 << 20,) if guess == "flat" else (1024,) if vector else (1024, 1024), "float32")))
    return found


def _notes(kernel: str, root: Path) -> tuple[str, ...]:
    common = ("FLOP, bytes and tolerance are estimates: review them in the subject, then set ESTIMATED = False",)
    if not kernel.endswith(".cu"):
        return common
    others = cuda.mangled(root, kernel)
    unnamed = f"{others} in {kernel}: name the mangled symbols in build(), or move them to another file" if others else ""
    return (*common, "the launch is a guess: review grid and arguments in launch.cu", unnamed)
