"""Import problems of other projects: find them, estimate their work, write their files, and plan them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashcore_ci.bounded import files
from flashcore_ci.model.errors import FlashcoreError, SuiteError, UsageError
from flashcore_ci.model.text import visible
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.scaffold import definitions, estimating, foreign, kernelbench, texts, writing
from flashcore_ci.scaffold.foreign import ForeignError, Problem

MAX_FILES = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of one problem: its suite, or why there is none."""

    name: str
    suite: str = ""
    checks: int = 0
    why: str = ""
    note: str = ""


def import_problems(
    paths: Sequence[Path], request: Request, progress: Progress, *, folder: str, candidate: Path | None, most: int
) -> tuple[Imported, ...]:
    """Import all problems in ``paths``. One that cannot be imported says why, and the others go on."""
    _check_folder(folder, request.root)
    results: list[Imported] = []
    problems: dict[str, Problem] = {}
    for file in _find(paths):
        origin = foreign.shown(_shown(file, request.root))
        try:
            for problem in _read(file, origin, request.root, candidate, most):
                names = (problem.name, *(f"{problem.name}-{number}" for number in range(2, MAX_FILES)))
                name = next(name for name in names if name not in problems)
                problems[name] = replace(problem, name=name)
        except ForeignError as error:
            results.append(Imported(name=origin, why=visible(str(error))))
    if not problems and not results:
        raise UsageError(
            "no problem was found", fix="give a KernelBench file, or a folder with definition.json and workload.jsonl"
        )
    progress(f"estimating the work of {len(problems)} problems")
    with scratch_folder() as scratch:
        python = request.settings.python
        works = estimating.estimate(list(problems.values()), python=python, scratch=scratch, root=scratch, isolated=True)
    for problem in problems.values():
        progress(f"planning {problem.name}")
        results.append(_write(problem, works[problem.name], request, folder))
    return tuple(results)


def write_subject(
    problem: Problem, works: dict[str, Any], root: Path, folder: str, *, extra: dict[str, str] | None = None
) -> str:
    """Write definition, candidate and suite. Return the suite's path."""
    place = f"{folder}/{problem.name}"
    chosen = problem.candidate
    written = {}
    if chosen.kind == "function" and chosen.sources:
        written = {f"{place}/{name}": text for name, text in chosen.sources.items()}
        problem = replace(problem, candidate=replace(chosen, file=f"{place}/{chosen.file}"))
    if clash := {f"{place}/definition.py", f"{place}/candidate.py"} & set(written):
        raise UsageError(f"a source of {problem.name} is called {Path(min(clash)).name}, as a file of the gate", fix="rename it")
    outside = [problem.candidate.file] if problem.candidate.file and problem.candidate.file not in written else []
    own = {"definition": f"{place}/definition.py", "candidate": f"{place}/candidate.py"}
    suite = f"{place}.toml"
    names = (own["candidate"], *written, *outside, *chosen.files)
    writing.write_new(
        root,
        {
            own["definition"]: texts.definition(problem, works, folder=place),
            own["candidate"]: texts.candidate(problem, works, folder=place),
            **written,
            suite: texts.suite(problem, own, tuple(dict.fromkeys(names))),
            **(extra or {}),
        },
    )
    return suite


def _write(problem: Problem, works: dict[str, Any] | str, request: Request, folder: str) -> Imported:
    if isinstance(works, str):
        return Imported(name=problem.name, why=works)
    try:
        suite = write_subject(problem, works, request.root, folder)
        request = replace(request, suite=Path(suite))
        plan = make_plan(load_suite(request), request, lambda _: None)
    except (SuiteError, UsageError) as error:
        return Imported(name=problem.name, why=str(error).splitlines()[0])
    except FlashcoreError:
        raise
    note = f"{problem.omitted} workloads omitted (--workloads)" if problem.omitted else ""
    return Imported(name=problem.name, suite=suite, checks=len(plan.checks), note=note)


def _read(file: Path, origin: str, root: Path, candidate: Path | None, most: int) -> Iterator[Problem]:
    if file.suffix == ".json":
        yield from definitions.read(file, origin=origin, most=most)
        return
    given = None
    if candidate is not None:
        place = files.resolve(candidate)
        if not place.is_relative_to(files.resolve(root)):
            raise ForeignError(f"the candidate {candidate} is outside of the checkout, so no digest would cover it")
        path = foreign.plain_path(place.relative_to(files.resolve(root)).as_posix())
        given = (path, foreign.read_text(place, path))
    yield kernelbench.read(file, origin=origin, candidate=given)


def _find(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield definitions and KernelBench files, in order. UsageError for a path that is absent."""
    count = 0
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: there is no such file or folder", fix="give a file or a folder that exists")
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in inside:
            count += 1
            if count > MAX_FILES:
                raise UsageError(f"there are more than {MAX_FILES} files", fix="give smaller folders")
            if _is_problem(file, named=file == path):
                yield file


def _is_problem(file: Path, *, named: bool) -> bool:
    if named or file.name == "definition.json" or (file.suffix == ".json" and "definitions" in file.parts):
        return file.is_file()
    if file.suffix != ".py" or not file.is_file():
        return False
    try:
        return kernelbench.is_problem(foreign.read_text(file, file.name))
    except ForeignError:
        return False


def _check_folder(folder: str, root: Path) -> None:
    try:
        foreign.plain_path(folder)
    except ForeignError as error:
        raise UsageError(str(error), fix="give --folder gates/imported") from None
    if not files.resolve(root / folder).is_relative_to(files.resolve(root)):
        raise UsageError(f"{folder} is outside of {root}", fix="give --folder gates/imported")


def _shown(path: Path, root: Path) -> str:
    whole, base = files.resolve(path), files.resolve(root)
    return whole.relative_to(base).as_posix() if whole.is_relative_to(base) else "/".join(whole.parts[-3:])
