"""Turn plan and evidence into verdicts: one per check, the same on every machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence

from flashcore_ci.judge import no_drift, no_slower, summary
from flashcore_ci.judge import waivers as waiving
from flashcore_ci.judge.matching import MatchedEvidence, Matcher, Source
from flashcore_ci.judge.references import ComparisonContext, References
from flashcore_ci.judge.rules import Evaluation, evaluate, evaluate_missing, findings_for, on_primary_scale
from flashcore_ci.model import isolation
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.evidence import BuildEvidence, Identity, Observation, Provenance
from flashcore_ci.model.identity import is_covered, was_same_code
from flashcore_ci.model.plan import Check, Plan
from flashcore_ci.model.reading import Missing, Samples
from flashcore_ci.model.suite import STATIC_KINDS, Kind, Scope, Severity, Statistic, Trust, Waiver
from flashcore_ci.model.verdict import Outcome, Report, StalePolicy, Verdict

__all__ = ["Source", "is_comparison_final", "judge", "matched_evidence", "workloads_without_base"]

DEFERRABLE_CODES = frozenset({Code.STALE_EVIDENCE, Code.NO_EVIDENCE})
"""The codes that a machine with a GPU could resolve."""
RELATIVE_EVALUATORS = {Statistic.SLOWDOWN: no_slower.evaluate, Statistic.DRIFT: no_drift.evaluate}
"""The statistics that compare two measurements."""
SCOPE_NOUNS = {Scope.SUBJECT: "subjects", Scope.ENTRY: "entry functions", Scope.WORKLOAD: "workloads"}


def judge(
    plan: Plan,
    builds: tuple[BuildEvidence, ...],
    sources: tuple[Source, ...],
    *,
    waivers: tuple[Waiver, ...],
    as_of: str,
    stale: StalePolicy,
    tool: str,
    references: References | None = None,
    base: Mapping[str, Identity] | None = None,
    max_age_days: float | None = None,
    bar: tuple[Verdict, ...] = (),
    no_base: Mapping[str, str] | None = None,
) -> Report:
    """Give each check one verdict, in plan order, as of the ISO 8601 day ``as_of``.

    Among recordings, one that fails takes precedence. ``base`` is the required base by workload (None: any). Evidence older than
    ``max_age_days`` does not count. ``bar`` are the verdicts on the suite itself, which come first. ``no_base`` says why the base
    cannot run workloads. ValueError: no date.
    """
    day = waiving.day_of(as_of)
    references = references or References()
    matcher = Matcher(plan=plan, builds=builds, sources=sources, base=base or {}, as_of=as_of, max_age_days=max_age_days)
    sharing = Counter((check.gate.evidence, check.target) for check in plan.checks)
    same_code = workloads_with_same_code(plan, matcher)
    results = [_evaluate_matches(plan, check, _find(matcher, check, no_base), references, same_code) for check in plan.checks]
    matches = [match for match, _ in results]
    verdicts = tuple(
        waiving.apply_waivers(_verdict(check, match, evaluation, stale, sharing[check.gate.evidence, check.target]), waivers, day)
        for check, (match, evaluation) in zip(plan.checks, results, strict=True)
    )
    notes = (*_notes(plan, matches), *_first_run_note(verdicts), *waiving.waiver_notes(waivers, verdicts, day))
    verdicts = (*bar, *verdicts)
    outcome = summary.overall(verdicts)
    return Report(
        suite=plan.suite,
        tool=tool,
        as_of=as_of,
        outcome=outcome,
        exit_code=summary.EXIT_CODE[outcome],
        headline=summary.headline(verdicts),
        verdicts=verdicts,
        excluded=plan.excluded,
        waivers=waivers,
        builds=builds,
        provenance=_provenance(plan, matches, sources),
        notes=notes,
    )


def _find(matcher: Matcher, check: Check, no_base: Mapping[str, str] | None) -> tuple[MatchedEvidence, ...]:
    """Find the evidence, none for a comparison that the base cannot run."""
    why = (no_base or {}).get(check.target)
    if why is None or check.gate.evidence is not Kind.COMPARISON:
        return matcher.matches(check)
    return (MatchedEvidence(missing=Missing(code=Code.NO_BASE, message=why)),)


def matched_evidence(
    plan: Plan,
    builds: tuple[BuildEvidence, ...],
    sources: tuple[Source, ...],
    *,
    references: References | None = None,
    base: Mapping[str, Identity] | None = None,
) -> tuple[MatchedEvidence, ...]:
    """Return the evidence that ``judge`` uses, each observation once."""
    matcher = Matcher(plan=plan, builds=builds, sources=sources, base=base or {})
    same_code = workloads_with_same_code(plan, matcher)
    used: dict[int, MatchedEvidence] = {}
    for check in plan.checks:
        match, _ = _evaluate_matches(plan, check, matcher.matches(check), references or References(), same_code)
        if match.observation is not None:
            used[id(match.observation)] = match
    return tuple(used.values())


def is_comparison_final(
    plan: Plan,
    target: str,
    samples: Mapping[str, Samples],
    *,
    provenance: Provenance,
    references: References,
    same_code: Container[str],
) -> bool:
    """Whether more rounds cannot change a verdict on ``target``. ``samples`` by metric."""
    checks = [check for check in plan.checks if check.gate.statistic is Statistic.SLOWDOWN and check.target == target]
    contexts = (comparison_context(plan, check, provenance, references, same_code=same_code) for check in checks)
    return all(no_slower.is_final(check, samples, context) for check, context in zip(checks, contexts, strict=True))


def workloads_without_base(
    plan: Plan, builds: tuple[BuildEvidence, ...], sources: tuple[Source, ...], base: Mapping[str, Identity] | None = None
) -> dict[str, str]:
    """Map the workloads that the base cannot run to the error."""
    matcher = Matcher(plan=plan, builds=builds, sources=sources, base=base or {})
    failures: dict[str, str] = {}
    for check in plan.checks:
        if check.gate.evidence is Kind.COMPARISON:
            messages = [_base_failure(match.observation) for match in matcher.matches(check)]
            failures |= {check.target: messages[0]} if all(messages) else {}
    return failures


def workloads_with_same_code(plan: Plan, matcher: Matcher) -> frozenset[str]:
    """Return the workloads with equal code on both sides (not timed)."""
    return frozenset(
        check.target
        for check in plan.checks
        if check.gate.evidence is Kind.COMPARISON and all(_takes_no_alpha(match.observation) for match in matcher.matches(check))
    )


def _takes_no_alpha(observation: Observation | None) -> bool:
    """Builds tell it before the first round. Code that is compiled when it runs counts as a row."""
    return observation is not None and is_covered(observation.identity) and was_same_code(observation)


def _is_same_code(observation: Observation | None) -> bool:
    return observation is not None and was_same_code(observation)


def comparison_context(
    plan: Plan,
    check: Check,
    provenance: Provenance,
    references: References,
    *,
    same_code: Container[str],
    is_live: bool = False,
) -> ComparisonContext:
    """Collect what judges a speed. Equal code takes no alpha.

    The name of the GPU counts in a live run, and in a recording if the suite accepts it by name.
    """
    named = plan.accepts is not None and provenance.device is not None and provenance.device.name in plan.accepts.devices
    family = [other for other in plan.checks if other.gate.statistic is check.gate.statistic]
    rows = sum(not (other.gate.evidence is Kind.COMPARISON and other.target in same_code) for other in family)
    vouched, roof = is_live or named, plan.roof(check.target)
    return ComparisonContext(roof=roof, rows=rows, provenance=provenance, references=references, vouched=vouched)


def _evaluate_matches(
    plan: Plan, check: Check, matches: Sequence[MatchedEvidence], references: References, same_code: Container[str]
) -> tuple[MatchedEvidence, Evaluation]:
    """Return the first match that fails, else the first."""
    results = [(match, _evaluate(plan, check, match, references, same_code)) for match in matches]
    return next((result for result in results if result[1].outcome is Outcome.FAIL), results[0])


def _evaluate(plan: Plan, check: Check, match: MatchedEvidence, references: References, same_code: Container[str]) -> Evaluation:
    if match.observation is not None and match.source is not None:
        if weak := _isolation_shortfall(plan, check, match.observation):
            return evaluate_missing(Missing(code=Code.NOT_ISOLATED, message=weak))
        if guess := _estimated_work(plan, check):
            return evaluate_missing(Missing(code=Code.ESTIMATED_WORK, message=guess))
        evaluate_relative = RELATIVE_EVALUATORS.get(check.gate.statistic)
        if evaluate_relative is None:
            return evaluate(on_primary_scale(check, plan), match.observation)
        provenance, is_live = match.source.evidence.provenance, match.source.origin.kind == "live"
        context = comparison_context(plan, check, provenance, references, same_code=same_code, is_live=is_live)
        return evaluate_relative(check, match.observation, context)
    missing = match.missing or Missing(code=Code.NO_EVIDENCE, message="no evidence")
    return evaluate_missing(missing, (("changed", ", ".join(match.changed)),) if match.changed else ())


def _isolation_shortfall(plan: Plan, check: Check, observation: Observation) -> str:
    """Return why a reading does not count for a subject that is not trusted, or ""."""
    if check.scope is not Scope.WORKLOAD or observation.missing is not None:
        return ""
    trust = next((one.trust for one in plan.descriptions if one.subject == check.subject), None)
    if trust is Trust.FULL or _is_same_code(observation):
        return ""
    return isolation.shortfall(observation.isolation, check.gate.evidence)


def _estimated_work(plan: Plan, check: Check) -> str:
    """Return why a blocking check that a roof selects has no verdict, or "". An estimate decides which roof is right."""
    if check.scope is not Scope.WORKLOAD or check.limit.severity is not Severity.BLOCKING:
        return ""
    if not check.gate.roofs and not check.gate.metric.startswith("sol/"):
        return ""
    problem = plan.description(check.subject).problem(check.target)
    return f"{problem.flops:.4g} FLOP and {problem.bytes:.4g} byte are estimates" if problem.estimated else ""


def _verdict(check: Check, match: MatchedEvidence, evaluation: Evaluation, stale: StalePolicy, sharing: int) -> Verdict:
    """Share the seconds of the observation among ``sharing`` checks."""
    gate, observation = check.gate, match.observation
    is_red = evaluation.outcome is not Outcome.PASS
    deferred = stale is StalePolicy.DEFER and evaluation.reason.code in DEFERRABLE_CODES and gate.evidence not in STATIC_KINDS
    notes = observation.notes if observation and (is_red or gate.evidence is not Kind.RESOURCES) else ()
    return Verdict(
        gate=gate.id,
        title=gate.title,
        evidence=gate.evidence,
        target=check.target,
        scope=check.scope,
        subject=check.subject,
        outcome=evaluation.outcome,
        severity=check.limit.severity,
        blocks=is_red
        and not deferred
        and check.limit.severity is Severity.BLOCKING
        and not _is_first_run(check, match, evaluation),
        deferred=deferred,
        reason=evaluation.reason,
        reading=evaluation.reading,
        rule=gate.rule,
        limit=check.limit.value,
        unit=check.limit.unit,
        origin=match.origin,
        next_step=NEXT_STEP.get(evaluation.reason.code, ""),
        why=check.limit.why or gate.why,
        findings=findings_for(gate, observation) if observation else (),
        notes=(*notes, *evaluation.notes, *_isolation_note(observation), *_binding_note(match)),
        seconds=observation.seconds / sharing if observation else 0.0,
    )


def _is_first_run(check: Check, match: MatchedEvidence, evaluation: Evaluation) -> bool:
    """Whether this gate applies once a baseline exists. Evidence that names this code itself is not believed."""
    was_measured = match.observation is not None and match.observation.missing is None
    return was_measured and check.gate.statistic is Statistic.DRIFT and evaluation.reason.code is Code.FIRST_RUN


def _isolation_note(observation: Observation | None) -> tuple[str, ...]:
    return () if observation is None or observation.isolation is None else (isolation.describe(observation.isolation),)


def _binding_note(match: MatchedEvidence) -> tuple[str, ...]:
    """Say what recorded evidence of a kernel without machine code at build time rests on."""
    observation = match.observation
    is_recorded = match.origin.kind not in {"live", "none"}
    if observation is None or not is_recorded or observation.kind in STATIC_KINDS or is_covered(observation.identity):
        return ()
    return ("recorded, and bound to sources, lock files and framework versions: without a GPU the kernel has no machine code",)


def _base_failure(observation: Observation | None) -> str:
    missing = observation.missing if observation is not None and observation.base is not None else None
    return missing.message if missing is not None and missing.code is Code.NO_BASE else ""


def _provenance(plan: Plan, matches: Sequence[MatchedEvidence], sources: Sequence[Source]) -> Provenance | None:
    used = (match.source for check, match in zip(plan.checks, matches, strict=True) if check.scope is Scope.WORKLOAD)
    first = next((source for source in (*used, *sources) if source is not None), None)
    return first.evidence.provenance if first else None


def _first_run_note(verdicts: Sequence[Verdict]) -> Iterator[str]:
    count = sum(verdict.reason.code is Code.FIRST_RUN and not verdict.blocks for verdict in verdicts)
    if count:
        yield f"{count} checks apply once this kind of machine has a baseline: flashcore-ci baseline propose RUN"


def _notes(plan: Plan, matches: Sequence[MatchedEvidence]) -> Iterator[str]:
    targets = {scope: {check.target for check in plan.checks if check.scope is scope} for scope in Scope}
    covered = ", ".join(f"{SCOPE_NOUNS[scope]}: {len(names)}" for scope, names in targets.items() if names)
    yield f"{len(plan.checks)} checks ({covered or 'none'}); {len(plan.excluded)} combinations do not apply"
    used = {id(match.source): match.source for match in matches if match.source}
    for source in used.values():
        for note in source.evidence.notes:
            yield note if source.origin.kind == "live" else f"{note} ({source.origin.detail})"
