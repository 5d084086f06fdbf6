"""The evidence of an earlier commit, and whether it may answer for this one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci import __version__
from flashcore_ci.adapters import git, git_export
from flashcore_ci.build.sources import Sources
from flashcore_ci.judge.judge import Source
from flashcore_ci.model.codes import Code
from flashcore_ci.model.decision import Measurement
from flashcore_ci.model.errors import UnmetError
from flashcore_ci.model.evidence import BuildEvidence
from flashcore_ci.model.identity import is_same_host_code
from flashcore_ci.model.verdict import Origin
from flashcore_ci.report.formatting import printable
from flashcore_ci.run import changed_files
from flashcore_ci.run import evidence as recorded
from flashcore_ci.run import statement as statements
from flashcore_ci.run.changed_files import Change
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.request import Request
from flashcore_ci.store import statement as statement_texts
from flashcore_ci.store.run import Run

SHOWN = 3
"""Changed files that a reason names."""


class NeededError(Exception):
    """The change needs a GPU job: ``code`` and why, and the only workloads that need it (none: all)."""

    def __init__(self, code: Code, why: str, only: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.code, self.only = code, only


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A whole clean run with its statement, and folders: ``root`` for the files that it measured, ``scratch`` for others."""

    run: Run
    measurement: Measurement
    scratch: Path

    @property
    def root(self) -> Path:
        """The measured files, once ``compare_commits`` has written them."""
        return self.scratch / "measured"

    @property
    def head(self) -> Path:
        """The files of the commit that is judged, once ``code_change`` has written them."""
        return self.scratch / "head"

    @property
    def exported(self) -> tuple[str, Path]:
        """The measured commit and its files, for other commits with the same ones."""
        return self.measurement.commit, self.root

    @property
    def source(self) -> Source:
        """The run as evidence. Its origin names the measurement."""
        return replace(recorded.source_of(self.run), origin=Origin(kind="recorded", detail=self.measurement.describe()))


def read_measured(evidence: Path, statement: Path, scratch: Path) -> Measured:
    """Read evidence with its statement. NeededError if it is not one whole clean measurement by this version."""
    run = statements.demand(evidence, statement)
    invocation = statement_texts.invocation_of(statements.read(statement))
    if why := refusal(run, invocation):
        raise NeededError(Code.BASE_UNMEASURED, f"the base's evidence does not count: {why}")
    provenance = run.evidence.provenance
    device = provenance.device.name if provenance.device else ""
    told = Measurement(run=invocation, commit=provenance.commit, collected_at=provenance.collected_at, device=device)
    return Measured(run=run, measurement=told, scratch=scratch)


def refusal(run: Run, invocation: str) -> str:
    """Say why a run is not one whole clean measurement by this version, or ""."""
    provenance = run.evidence.provenance
    refused = {
        "its statement names no workflow run": not invocation,
        "it is of the first schema": run.is_v1,
        "it is of a shard, or was merged from unsigned bundles": run.evidence.is_part,
        "it is of a checkout with uncommitted changes": provenance.dirty,
        "it names no GPU": provenance.device is None,
        f"it was collected by flashcore-ci {provenance.version}, and this is {__version__}": provenance.version != __version__,
    }
    return next((why for why, is_so in refused.items() if is_so), "")


def compare_commits(found: Measured, base: str, head: str, request: Request) -> tuple[str, ...]:
    """Return the covered files in which head differs from the measured commit. NeededError for any other difference.

    The base must have the measured code too, but for comments: a chain of commits without a GPU proves nothing.
    """
    measured, logs = found.measurement.commit, found.scratch
    if not git.is_ancestor(request.root, measured, base, logs=logs):
        raise NeededError(Code.BASE_UNMEASURED, f"the evidence is of {git.short(measured)}, which the base does not contain")
    before, of_base, of_head = (git.files_of(request.root, commit, logs=logs) for commit in (measured, base, head))
    git_export.export(request.root, measured, into=found.root, logs=logs)
    sources = Sources(found.root)
    covered = changed_files.covered_by(found.run.plan, found.run.evidence.builds, sources)
    changed = {path for side in (of_base, of_head) for path, _ in before.items() ^ side.items()}
    is_input = any(map(changed_files.may_be_documentation, changed)) and changed_files.reads_documentation(covered, sources)
    places = changed_files.Places(
        suites=request.suite.parent.as_posix(),
        documentation=not is_input,
        new_documentation=not changed_files.lists_folders(covered, sources),
    )
    changes = tuple(changed_files.changes(before, of_head, covered, places))
    refuse((change for change in changes if change.code is not Code.CODE_CHANGED), "")
    _demand_measured_base(found, base, tuple(changed_files.changes(before, of_base, covered, places)), request)
    return tuple(change.path for change in changes)


def _demand_measured_base(found: Measured, base: str, changes: tuple[Change, ...], request: Request) -> None:
    prefix = "the base itself was not measured: "
    refuse((change for change in changes if change.code is not Code.CODE_CHANGED), prefix)
    if changes:
        root = found.scratch / "base"
        git_export.export(request.root, base, into=root, logs=found.scratch, other=found.exported)
        names = tuple(change.path for change in changes)
        change = changed_files.code_change(names, found.run.plan, Sources(found.root), Sources(root))
        refuse([change] if change else (), prefix)


def code_change(found: Measured, paths: tuple[str, ...], commit: str, request: Request) -> Change | None:
    """Compare covered files of ``commit`` with the measured ones without comments. NeededError if Python differs."""
    git_export.export(request.root, commit, into=found.head, logs=found.scratch, other=found.exported)
    change = changed_files.code_change(paths, found.run.plan, Sources(found.root), Sources(found.head))
    if change is not None and change.code is not Code.CODE_CHANGED:
        refuse([change], "")
    return change


def moved_code(found: Measured, paths: tuple[str, ...]) -> str:
    """Return a C++ file whose code moved, once ``code_change`` has written both commits."""
    return changed_files.moved_code(paths, found.run.plan, Sources(found.root), Sources(found.head))


def refuse_other_host_code(moved: str, before: Iterable[BuildEvidence], after: Iterable[BuildEvidence]) -> None:
    """NeededError if code ``moved``, and launchers of the same text compile to other host code."""
    heads = {build.subject: build for build in after}
    for base in before if moved else ():
        head = heads.get(base.subject)
        if head is not None and base.launcher == head.launcher != "" and not is_same_host_code(base, head):
            why = f"{moved} has its code in other lines, and {base.subject} compiles to other host code"
            raise NeededError(Code.CODE_CHANGED, why)


def refuse(changes: Iterable[Change], prefix: str) -> None:
    """Raise NeededError for changes, and name the first."""
    found = tuple(changes)
    if found:
        named = "; ".join(f"{printable(change.path)} {change.why}" for change in found[:SHOWN])
        more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise NeededError(Code.BASE_UNMEASURED if prefix else found[0].code, f"{prefix}{named}{more}")


def join(rest: tuple[Path, Path], live: Run, base: str, request: Request) -> Source:
    """Return the base's evidence for what a GPU job left out. UnmetError if it may not answer for this commit.

    ``rest``: the evidence and its statement. Only digests of code may differ, and the judge takes what is of exactly the code built here.
    ``needs-gpu`` leaves nothing out if lines that moved could change host code: it builds both commits on one machine.
    """
    with scratch_folder() as scratch:
        try:
            found = read_measured(*rest, scratch)
            head = live.evidence.provenance
            paths = compare_commits(found, base, head.commit, request)
            if paths:
                code_change(found, paths, head.commit, request)
        except NeededError as error:
            raise UnmetError(str(error), fix="run the GPU job on this commit with the whole suite") from None
    if found.run.evidence.provenance.machine_class != head.machine_class:
        fix = "run the GPU job on this commit with the whole suite"
        raise UnmetError("the base's evidence is of another machine class than the GPU job's", fix=fix)
    return found.source
