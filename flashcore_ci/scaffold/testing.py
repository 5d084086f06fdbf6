"""The gate for one kernel in a test, as on the command line."""

from __future__ import annotations

import hashlib
import inspect
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashcore_ci.bounded import files
from flashcore_ci.bounded.values import shorten
from flashcore_ci.model.errors import FlashcoreError, UsageError
from flashcore_ci.model.verdict import Outcome, Report
from flashcore_ci.report import formatting
from flashcore_ci.run import gate as gating
from flashcore_ci.run import host
from flashcore_ci.run.request import Request
from flashcore_ci.scaffold import foreign, importing, pairs
from flashcore_ci.scaffold.foreign import ForeignError, Problem

FOLDER = "runs/pytest-subjects"
OUT = Path("runs/pytest")
MAX_LINES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a test's gate ended. ``text`` is for people."""

    passed: bool = False
    skipped: bool = False
    text: str = ""
    out: Path = OUT
    report: Report | None = None


def gate(
    fn: object,
    ref: object,
    inputs: object,
    *,
    root: Path,
    name: str,
    mode: str,
    environ: Mapping[str, str],
    tolerance: float | None = None,
) -> Ended:
    """Gate ``fn`` against ``ref``. Every mistake of the caller is a failed test with a fix."""
    try:
        problem = _problem(fn, ref, inputs, root=root, name=name, tolerance=tolerance)
        live = mode == "live" or (mode == "auto" and host.sees_gpu())
        if not live and mode == "auto":
            why = "this machine has no GPU. --kernel-gate=recorded judges recorded evidence"
            return Ended(text=f"flashcore-ci: {why}", skipped=not environ.get("CI"))
        place = root / FOLDER / problem.name
        shutil.rmtree(place, ignore_errors=True)
        place.with_name(f"{problem.name}.toml").unlink(missing_ok=True)
        suite = importing.write_subject(problem, {}, root, FOLDER)
        out = root / OUT / problem.name
        request = Request(suite=Path(suite), out=out, environ=environ, live=live, evidence=root / "gates/evidence", checkout=root)
        report = gating.gate(request, lambda _: None)
    except (FlashcoreError, ForeignError) as error:
        fix = getattr(error, "fix", "give kernel, reference and inputs as `flashcore-ci init` takes them")
        return Ended(text=f"flashcore-ci: {error}" + (f"\nfix: {fix}" if fix else ""))
    return Ended(
        passed=report.outcome is Outcome.PASS and report.exit_code == 0, text=_describe(report, out), out=out, report=report
    )


def _describe(report: Report, out: Path) -> str:
    red = [verdict for verdict in report.verdicts if verdict.outcome is not Outcome.PASS]
    steps = (f"\n  next: {verdict.next_step}" if verdict.next_step else "" for verdict in red)
    lines = [f"{v.outcome} {v.gate}: {formatting.detail(v)}{step}" for v, step in zip(red[:MAX_LINES], steps, strict=False)]
    return "\n".join([report.headline, *lines, f"reports: {out}"])


def _problem(fn: object, ref: object, inputs: object, *, root: Path, name: str, tolerance: float | None) -> Problem:
    kernel, reference = _function(fn, "the kernel", root), _function(ref, "the reference", root)
    if tolerance is not None and not _is_limit(tolerance):
        raise UsageError(f"tolerance is {shorten(repr(tolerance))}", fix="give the largest absolute error, as 2e-3")
    if callable(inputs):
        generator, given = _function(inputs, "the inputs", root), {}
    else:
        generator, given = None, _tensors(inputs)
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    test = re.sub(r"[^A-Za-z0-9]+", "-", name.rpartition("::")[2]).strip("-")[:48]
    return pairs.make(
        pairs.Pair(
            name=f"{test or 'test'}-{digest}",
            origin=foreign.shown(f"{kernel[0]}::{kernel[1]}"),
            command="pytest",
            kernel=kernel,
            reference=reference,
            generator=generator,
            given=given,
            tolerance=None if tolerance is None else float(tolerance),
        ),
        root,
    )


def _is_limit(value: object) -> bool:
    """Tell whether it is a number, perhaps of NumPy, from 0 to the largest one."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def _function(function: object, what: str, root: Path) -> tuple[str, str]:
    """Return file and name of a function that another process can import. UsageError for any other."""
    given, function = function, function if inspect.isfunction(function) else getattr(function, "fn", function)  # Triton's
    if not callable(function) or not inspect.isfunction(defined := inspect.unwrap(function)):
        raise UsageError(
            f"{what} is {type(function).__name__}, not a function", fix="give a function that a file defines with def"
        )
    if defined.__globals__.get(name := defined.__qualname__) is not given:  # as fast = torch.compile(slow)
        raise UsageError(
            f"{what} is not what its file has as {name!r}, so another process cannot import it",
            fix="define it with def at the top level of a file, and decorate it there",
        )
    path = files.resolve(Path(defined.__code__.co_filename))
    if not path.is_relative_to(files.resolve(root)):
        raise UsageError(f"{what} is in {path}, outside of {root}", fix="put it into a file of this repository")
    return path.relative_to(files.resolve(root)).as_posix(), name


def _tensors(inputs: object) -> dict[str, Any]:
    """Return shape and dtype of each tensor, and each scalar."""
    if not isinstance(inputs, Mapping) or not inputs:
        raise UsageError(
            f"the inputs are {type(inputs).__name__}",
            fix="give a dict of tensors by name, or a function that takes a seed and returns one",
        )
    found: dict[str, Any] = {}
    for name, value in inputs.items():
        dtype = str(getattr(value, "dtype", "")).removeprefix("torch.")
        if isinstance(value, bool | int | float):
            found[name] = value
        elif not dtype:
            raise UsageError(
                f"the input {name} is {type(value).__name__}, not a tensor or a number", fix="give a tensor or a number"
            )
        elif not dtype.startswith(("float", "bfloat")):
            raise UsageError(
                f"the input {name} is {dtype}, and drawn values could be out of range",
                fix="give a function that takes a seed and returns all inputs",
            )
        else:
            found[name] = (tuple(int(size) for size in value.shape), dtype)
    return found
