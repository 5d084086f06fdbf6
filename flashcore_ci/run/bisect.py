"""Find the commit, or the bump of a tool, that made a workload slower."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from flashcore_ci.adapters import git, nvml
from flashcore_ci.collect import placing
from flashcore_ci.collect.comparison import Base
from flashcore_ci.collect.session import Session
from flashcore_ci.history.bisect import LOOKS, Found, Placement, State, place, search
from flashcore_ci.judge.stats.common_clock import blend
from flashcore_ci.judge.stats.paired_estimate import Prior, priors
from flashcore_ci.judge.stats.sequential_test import percent
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.identity import digest_of
from flashcore_ci.model.metrics import Scale, primary_scale
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Missing, Samples
from flashcore_ci.model.subject import Description
from flashcore_ci.model.suite import Kind, Suite, Workload
from flashcore_ci.run import host, references
from flashcore_ci.run.base.checkout import check_out
from flashcore_ci.run.base.prepare import prepare_base
from flashcore_ci.run.plan import load_suite, make_plan
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store.claim import LOGS, claim_folder
from flashcore_ci.store.codec import encode
from flashcore_ci.store.files import write_atomically
from flashcore_ci.suite.alerts import ends_of

__all__ = ["Question", "bisect", "ends_of", "lines"]

ALWAYS = ("pyproject.toml", ":(glob)*.lock", ":(glob)requirements*.txt")
"""Files that name tools or options, which every subject may depend on."""
RESULT = "bisect.json"
Bases = dict[State, Base]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which change between two revisions made ``workload`` slower? The good end may have tools of its own."""

    workload: str
    good: str
    bad: str
    good_python: Path | None = None
    good_toolchain: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One comparison with its samples by side: ``base`` is the good end and ``anchor`` the bad one."""

    state: State
    samples: Mapping[str, Samples]
    missing: str = ""


@dataclass(slots=True, kw_only=True)
class Record:
    """What a bisection found, as its file keeps it."""

    question: Question
    states: tuple[State, ...] = ()
    measured: list[Measured] = field(default_factory=list)
    found: Found | None = None


def bisect(question: Question, request: Request, progress: Progress) -> Found:
    """Bisect on this machine's GPU. UsageError if ``good`` is not before ``bad``, or if no code differs."""
    host.require_gpu(request.gpu)
    request = replace(request, out=request.out.absolute(), live=True, kinds=(Kind.COMPARISON,), only=(question.workload,))
    with claim_folder(request.out), contextlib.ExitStack() as stack:
        scratch = stack.enter_context(host.scratch_folder())
        commits = _line(question, request, scratch)
        bad = commits[-1].sha
        request = replace(request, commit=bad, checkout=check_out(bad, request, scratch))
        suite = load_suite(request)
        plan = make_plan(suite, request, progress, compared=True)
        workload = _only(plan, question.workload)
        states, bases = _build(question, commits, workload, _Tools(stack, suite, plan, request, progress), scratch)
        record = Record(question=question, states=states)
        codes = {state.code for state in states if state.code}
        if len(codes) < 2 or not all(state.code for state in (states[0], states[-1])):  # noqa: PLR2004 - two ends
            raise UsageError(f"nothing to measure: {_why_not(states)}", fix="name other revisions, or another workload")
        logs = request.out / LOGS
        logs.mkdir()
        session = host.session(request, progress, logs, plan=plan, builds=bases[states[-1]].builds)
        record.found = search(states, _measurer(session, workload, bases, record, _prior(request, session, workload)))
        write_atomically(request.out / RESULT, encode(record))
        return record.found


def lines(found: Found) -> Iterator[str]:
    """Say what was found."""
    changed = found.distinct - 1
    yield f"{changed} of the states have other code than the one before, {len(found.steps)} were measured"
    for step in found.steps:
        seen = step.placement
        if seen is None:
            yield f"  {step.state.name}: cannot be measured"
            continue
        words = {Code.SLOWER: "as the bad end", Code.SAME: "as the good end"}.get(seen.code, "undecided")
        yield f"  {step.state.name}: {words} after {seen.middle.rounds} rounds, ends {percent(seen.step.mean):+.2f} % apart"
    if not found.is_real:
        yield "the ends are equally fast: there is nothing to find"
        return
    if found.between:
        yield "one of these, which could not be decided or built:"
        yield from (f"  {state.name}" for state in found.between)
    yield f"last good: {found.last_good.name}"
    yield f"first bad: {found.first_bad.name}"


def _line(question: Question, request: Request, scratch: Path) -> tuple[git.Logged, ...]:
    """Return the first-parent line from the good commit to the bad one, the oldest first."""
    good = git.commit_of(request.root, question.good, logs=scratch)
    line = git.log(request.root, question.bad, logs=scratch, all_first_parents=True)
    index = next((number for number, logged in enumerate(line) if logged.sha == good), None)
    has_bump = question.good_python is not None or question.good_toolchain is not None
    if index is None or (index == 0 and not has_bump):
        message = f"{git.short(good)} is not before {git.short(line[0].sha)} on its first-parent line"
        raise UsageError(message, fix="give --good an ancestor of --bad")
    return tuple(reversed(line[: index + 1]))


def _only(plan: Plan, name: str) -> Workload:
    workload = next((w for w in plan.workloads_for(Kind.COMPARISON) if w.id == name), None)
    if workload is None:
        raise UsageError(f"the suite compares no workload {name}", fix="flashcore-ci plan")
    return workload


@dataclass(frozen=True, slots=True)
class _Tools:
    """What every state is prepared with."""

    stack: contextlib.ExitStack
    suite: Suite
    plan: Plan
    request: Request
    progress: Progress

    def prepare(self, commit: str, *, python: Path | None = None, toolchain: str | None = None) -> Base:
        there = replace(self.request, base_python=python, base_toolchain=toolchain)
        return self.stack.enter_context(prepare_base(commit, self.suite, self.plan, there, self.progress, side="commit"))


def _build(
    question: Question, commits: tuple[git.Logged, ...], workload: Workload, tools: _Tools, scratch: Path
) -> tuple[tuple[State, ...], Bases]:
    """Build the good commit, and every one that changes a file which the workload can depend on."""
    first, last = commits[0], commits[-1]
    bases: Bases = {}
    if question.good_python is not None or question.good_toolchain is not None:
        old = tools.prepare(first.sha, python=question.good_python, toolchain=question.good_toolchain)
        bases[_state(first, old, workload, tools="; ".join(old.environment) or "the older tools")] = old
    ends = {logged: tools.prepare(logged.sha) for logged in dict.fromkeys((first, last))}
    paths = {path for base in ends.values() for path in _paths(base.plan.descriptions)}
    touching = git.touching(
        tools.request.repository, first.sha, last.sha, (*sorted(paths), *ALWAYS, str(tools.request.suite)), scratch
    )
    states = list(bases)
    for logged in commits:
        if logged in ends or logged.sha in touching:
            base = ends.get(logged) or tools.prepare(logged.sha)
            states.append(_state(logged, base, workload))
            bases[states[-1]] = base
        else:  # it changes no such file, so its code is that of the commit before
            states.append(State(commit=logged.sha, code=states[-1].code, subject=logged.subject))
    return tuple(states), bases


def _state(logged: git.Logged, base: Base, workload: Workload, tools: str = "") -> State:
    """Name the code of a commit: equal code has equal digests, equal host code and equal tools."""
    identity = base.identities.get(workload.id)
    build = next((build for build in base.builds if build.subject == workload.subject), None)
    hosts = (build.preprocessed, build.host_objects) if build is not None else ()
    code = digest_of(identity.machine_code, identity.launcher, identity.binding, hosts, str(base.python)) if identity else ""
    return State(commit=logged.sha, code=code, subject=logged.subject, tools=tools)


def _paths(descriptions: Iterable[Description]) -> Iterator[str]:
    """Yield the top folders of all that the subjects name."""
    for description in descriptions:
        build = description.build
        files = [description.file, *description.candidate]
        if build is not None:
            files += [*build.launchers, *build.includes, *build.binding, *(entry.source for entry in build.entries)]
        yield from ((*Path(file).parts, ".")[0] for file in files)


def _why_not(states: tuple[State, ...]) -> str:
    failed = next((state for state in (states[0], states[-1]) if not state.code), None)
    return f"{failed.name} cannot run the workload" if failed else "all commits have the same code"


def _prior(request: Request, session: Session, workload: Workload) -> Prior | None:
    name = nvml.read(request.gpu).name
    noises = references.of(request.root / request.suite).noises
    noise = next((noise for noise in noises if (noise.device, noise.clock_policy) == (name, session.clock_policy)), None)
    return priors(noise, primary_scale(workload.roof)).get(workload.id) if noise else None


def _measurer(
    session: Session, workload: Workload, bases: Bases, record: Record, prior: Prior | None
) -> Callable[[State], Placement | None]:
    """Return what measures a state with both ends."""
    codes = {state.code: base for state, base in reversed(bases.items())}
    ends = placing.Ends(good=codes[record.states[0].code], bad=codes[record.states[-1].code])
    metric, numbers = primary_scale(workload.roof).metric, itertools.count(1)

    def values_of(samples: Mapping[str, Samples], side: str) -> Sequence[float]:
        values = samples[f"{side}/{metric}"].values
        return blend(values, samples[f"{side}/{Scale.TIME.metric}"].values, prior.slope) if prior and prior.slope else values

    def clock_of(samples: Mapping[str, Samples], side: str) -> float:
        if not prior or not prior.slope:
            return 0.0
        pairs = zip(samples[f"{side}/{metric}"].values, samples[f"{side}/{Scale.TIME.metric}"].values, strict=True)
        return fmean(math.log(cycles / ms) for cycles, ms in pairs)

    def placement_of(samples: Mapping[str, Samples]) -> Placement | None:
        sides = ("base", "head", "anchor")
        good, middle, bad = (values_of(samples, side) for side in sides)
        before, here, after = (clock_of(samples, side) for side in sides)
        return place(good, middle, bad, prior, (before, here, after))

    def is_final(samples: Mapping[str, Samples]) -> bool:
        found = placement_of(samples)
        return found is not None and found.code is not Code.UNDECIDED

    def measure(state: State) -> Placement | None:
        name = f"step-{next(numbers)}"
        scratch = session.scratch / name
        scratch.mkdir()
        session.progress(f"measuring {state.name}")
        one = replace(session, scratch=scratch, artifacts=f"{session.artifacts}/{name}")
        found = placing.place(one, ends, codes[state.code], workload, rounds=LOOKS, is_final=is_final)
        missing = found.message if isinstance(found, Missing) else ""
        record.measured.append(Measured(state=state, samples={} if isinstance(found, Missing) else found, missing=missing))
        return None if isinstance(found, Missing) else placement_of(found)

    return measure
