"""Collect the dossier: workloads, judged observations, SM clocks and source lines."""

from __future__ import annotations

import contextlib
import fnmatch
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from flashcore_ci.judge.judge import Source, answering
from flashcore_ci.model.dossier import Dossier, Excerpt, Trace
from flashcore_ci.model.evidence import BuildEvidence, Finding, Identity, Observation
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.suite import Kind, Suite

PROCESS = "*/timing/process-*.json"
"""The result file of each timing process, with all its blocks."""
MOST_POINTS = 40
AROUND = 2
MOST_EXCERPTS = 50
MOST_SOURCE_BYTES = 1 << 20
MOST_LINE = 200
SOURCES = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hpp", ".inl", ".py"})
"""Only these files are quoted, because evidence is untrusted and may name any file."""


def of(
    suite: Suite | None,
    plan: Plan | None,
    builds: tuple[BuildEvidence, ...],
    sources: Sequence[Source],
    *,
    root: Path,
    base: Mapping[str, Identity] | None = None,
) -> Dossier:
    """Return the dossier, empty without a plan. ``base`` is as for ``judge``."""
    if suite is None or plan is None:
        return Dossier()
    matches = answering(plan, builds, tuple(sources), base=base)
    observations = tuple(match.observation for match in matches if match.observation is not None)
    timed = [(match.observation, match.source.files) for match in matches if match.observation and match.source]
    return Dossier(
        suite_file=plan.suite_file,
        ridge=suite.ridge,
        workloads=plan.workloads,
        descriptions=plan.descriptions,
        observations=observations,
        traces=tuple(trace for seen, files in timed if seen.kind is Kind.TIMING for trace in traces(seen, files)),
        excerpts=tuple(excerpts((finding for seen in observations for finding in seen.findings), root)),
    )


def traces(observation: Observation, files: Mapping[str, bytes]) -> Iterator[Trace]:
    """Yield the SM clock of each process that timed this workload."""
    names = [name for name in observation.artifacts if fnmatch.fnmatch(name, PROCESS) and name in files]
    for number, name in enumerate(names):
        with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):  # without a clock the page lacks one chart
            blocks = json.loads(files[name])["outcomes"][observation.target]["blocks"]
            if blocks:
                yield _trace(observation.target, number, _thinned(blocks))


def _trace(workload: str, process: int, blocks: Sequence[Sequence[Any]]) -> Trace:
    return Trace(
        workload=workload,
        process=process,
        seconds=tuple(float(block[0]) for block in blocks),
        mhz=tuple(float(block[2]) for block in blocks),
    )


def _thinned(blocks: Sequence[Any]) -> Sequence[Any]:
    """Return at most ``MOST_POINTS`` blocks, evenly spaced and with the last one."""
    step = -(-len(blocks) // MOST_POINTS)
    return blocks[::-1][::step][::-1]


def excerpts(findings: Iterable[Finding], root: Path) -> Iterator[Excerpt]:
    """Yield the source around each finding once, if this checkout has it."""
    places = dict.fromkeys((finding.file, finding.line) for finding in findings if finding.file and finding.line > 0)
    for file, line in list(places)[:MOST_EXCERPTS]:
        lines = _lines(file, root)
        if line <= len(lines):
            first = max(1, line - AROUND)
            yield Excerpt(file=file, line=line, first=first, lines=tuple(lines[first - 1 : line + AROUND]))


def _lines(file: str, root: Path) -> list[str]:
    path = _in_checkout(PurePosixPath(file), root.resolve())
    if path is None:
        return []
    try:
        with path.open(encoding="utf-8", errors="replace") as source:
            return [line[:MOST_LINE] for line in source.read(MOST_SOURCE_BYTES).splitlines()]
    except OSError:
        return []


def _in_checkout(file: PurePosixPath, root: Path) -> Path | None:
    """Return the file in this checkout, or the longest end of an absolute name in it."""
    if file.suffix not in SOURCES:
        return None
    parts = file.parts[1:] if file.is_absolute() else file.parts
    for start in range(len(parts) - 1) if file.is_absolute() else (0,):
        with contextlib.suppress(OSError, ValueError):  # not a valid file name
            path = root.joinpath(*parts[start:]).resolve()
            if path.is_relative_to(root) and path.is_file():
                return path
    return None
