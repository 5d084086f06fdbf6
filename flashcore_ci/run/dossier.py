"""The dossier of a run: plan, observations, clock traces, source lines."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from flashcore_ci.bounded import files as bounded
from flashcore_ci.bounded.values import loads
from flashcore_ci.judge.judge import Source, matched_evidence
from flashcore_ci.model import devices
from flashcore_ci.model.dossier import Dossier, Excerpt, Trace
from flashcore_ci.model.evidence import BuildEvidence, Finding, Identity, Observation
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.suite import Kind, Ridge, Suite

PROCESS = "*/timing/process-*.json"
"""The result of each timing process, with every block of launches."""
MAX_POINTS = 40
CONTEXT_LINES = 2
MAX_EXCERPTS = 50
MAX_TRACES = 16
MAX_FOLDERS = 40
MAX_LINE = 200
Clock = tuple[tuple[float, ...], tuple[float, ...]]
SOURCES = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hpp", ".inl", ".py"})
"""Only these files are quoted: evidence from elsewhere may name any file."""


def make_dossier(
    suite: Suite | None,
    plan: Plan | None,
    builds: tuple[BuildEvidence, ...],
    sources: Sequence[Source],
    *,
    root: Path,
    base: Mapping[str, Identity] | None = None,
) -> Dossier:
    """Collect what a run has. Without a plan it is empty."""
    if suite is None or plan is None:
        return Dossier()
    matches = matched_evidence(plan, builds, tuple(sources), base=base)
    observations = tuple(match.observation for match in matches if match.observation is not None)
    known = [(match.observation, match.source.files) for match in matches if match.observation and match.source]
    timed = [(observation, files) for observation, files in known if observation.kind is Kind.TIMING]
    clocks = cache(_read_clocks)
    findings = (finding for observation in observations for finding in observation.findings)
    return Dossier(
        suite_file=plan.suite_file,
        ridge=_ridge(suite.ridge, [match.source for match in matches if match.source]),
        workloads=plan.workloads,
        descriptions=plan.descriptions,
        observations=observations,
        traces=tuple(trace for observation, files in timed for trace in traces(observation, files, clocks)),
        excerpts=tuple(excerpts(findings, root)),
    )


def _ridge(declared: Ridge, sources: Sequence[Source]) -> Ridge:
    """Return the roofs of the GPU that was measured, if they are known, or else those of the suite."""
    measured = next((source.evidence.provenance.device for source in sources if source.evidence.provenance.device), None)
    gpu = devices.GPUS.get(measured.name) if measured is not None and measured.name != declared.device else None
    return Ridge(device=gpu.name, flops=gpu.flops, bandwidth=gpu.bandwidth) if gpu is not None else declared


Clocks = Callable[[bytes], Mapping[str, Clock]]


def traces(observation: Observation, files: Mapping[str, bytes], clocks: Clocks | None = None) -> Iterator[Trace]:
    """Yield the clock of each process that timed this workload. ``clocks`` reads a result, each only once."""
    clocks = clocks or _read_clocks
    names = [name for name in dict.fromkeys(observation.artifacts) if fnmatch.fnmatch(name, PROCESS) and name in files]
    for number, name in enumerate(names[:MAX_TRACES]):
        if clock := clocks(files[name]).get(observation.target):
            yield Trace(workload=observation.target, process=number, seconds=clock[0], mhz=clock[1])


def _read_clocks(data: bytes) -> dict[str, Clock]:
    """Read seconds and MHz of each workload, thinned."""
    found: dict[str, Clock] = {}
    unreadable = (ValueError, TypeError, LookupError, AttributeError, OverflowError)  # a chart without one trace is not an error
    with contextlib.suppress(*unreadable):
        for target, outcome in loads(data)["outcomes"].items() if len(data) <= bounded.MAX_RECORD else ():
            with contextlib.suppress(*unreadable):
                if blocks := outcome["blocks"]:
                    seconds, mhz = (tuple(float(block[column]) for block in _thin(blocks)) for column in (0, 2))
                    found[target] = (seconds, mhz)
    return found


def _thin(blocks: Sequence[Any]) -> Sequence[Any]:
    """Take evenly spaced blocks, the last included."""
    step = -(-len(blocks) // MAX_POINTS)
    return blocks[::-1][::step][::-1]


def excerpts(findings: Iterable[Finding], root: Path) -> Iterator[Excerpt]:
    """Quote this checkout's source around each finding."""
    places = dict.fromkeys((finding.file, finding.line) for finding in findings if finding.file and finding.line > 0)
    for file, line in list(places)[:MAX_EXCERPTS]:
        lines = _lines(file, root)
        if line <= len(lines):
            first = max(1, line - CONTEXT_LINES)
            yield Excerpt(file=file, line=line, first=first, lines=tuple(lines[first - 1 : line + CONTEXT_LINES]))


def _lines(file: str, root: Path) -> list[str]:
    path = _in_checkout(PurePosixPath(file), root.resolve())
    if path is None:
        return []
    try:
        text = bounded.read_start(path, limit=bounded.MIB).decode("utf-8", errors="replace")
        return [line[:MAX_LINE] for line in text.splitlines()]
    except OSError:
        return []


def _in_checkout(file: PurePosixPath, root: Path) -> Path | None:
    """Find the source by the longest known end of an absolute name."""
    if file.suffix not in SOURCES:
        return None
    parts = file.parts[1:] if file.is_absolute() else file.parts
    if len(parts) > MAX_FOLDERS:
        return None
    for start in range(len(parts) - 1) if file.is_absolute() else (0,):
        with contextlib.suppress(OSError, ValueError):  # the name may be impossible in this file system
            path = bounded.resolve(root.joinpath(*parts[start:]))
            if path.is_relative_to(root) and path.is_file():
                return path
    return None
