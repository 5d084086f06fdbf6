"""Plan and evidence to verdicts: pure, total over the plan, the same on every machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence

from flashcore_ci.judge import no_drift, no_slower, summary
from flashcore_ci.judge import waivers as waiving
from flashcore_ci.judge.matching import MatchedEvidence, Matcher, Source
from flashcore_ci.judge.references import ComparisonContext, References
from flashcore_ci.judge.rules import Evaluation, evaluate, evaluate_missing, findings_for
from flashcore_ci.model.codes import NEXT_STEP, Code
from flashcore_ci.model.evidence import BuildEvidence, Identity, Observation, Provenance
from flashcore_ci.model.identity import is_same_code
from flashcore_ci.model.plan import Check, Plan
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import STATIC_KINDS, Kind, Scope, Severity, Statistic, Waiver
from flashcore_ci.model.verdict import Outcome, Report, StalePolicy, Verdict

__all__ = ["Source", "judge", "matched_evidence", "workloads_without_base"]

DEFERRABLE_CODES = frozenset({Code.STALE_EVIDENCE, Code.NO_EVIDENCE})
"""What a machine with the GPU could still answer: these are deferred when the caller says so."""
RELATIVE_EVALUATORS = {Statistic.SLOWDOWN: no_slower.evaluate, Statistic.DRIFT: no_drift.evaluate}
"""Statistics that hold a measurement against another one, and not against a limit alone."""
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
) -> Report:
    """Exactly one verdict for each check, in plan order, from the first source that measured these builds.

    Where several recordings did, one that fails answers before one that passes.

    ``as_of`` (ISO 8601) is the day that waivers are judged by; ValueError when it is no date. ``references`` are the recorded noise
    and the baselines of this checkout; ``base`` is what comparisons must be with, by workload (none: with whatever they were).
    """
    day = waiving.day_of(as_of)
    matcher = Matcher(plan=plan, builds=builds, sources=sources, base=base or {})
    sharing = Counter((check.gate.evidence, check.target) for check in plan.checks)
    same = same_code_workloads(plan, matcher)
    answers = [
        _evaluate_first_failure(plan, check, matcher.matches(check), references or References(), same) for check in plan.checks
    ]
    matches = [match for match, _ in answers]
    verdicts = tuple(
        waiving.apply_waivers(_verdict(check, match, found, stale, sharing[check.gate.evidence, check.target]), waivers, day)
        for check, (match, found) in zip(plan.checks, answers, strict=True)
    )
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
        notes=(*_notes(plan, matches), *waiving.waiver_notes(waivers, verdicts, day)),
    )


def matched_evidence(
    plan: Plan,
    builds: tuple[BuildEvidence, ...],
    sources: tuple[Source, ...],
    *,
    references: References | None = None,
    base: Mapping[str, Identity] | None = None,
) -> tuple[MatchedEvidence, ...]:
    """What the verdicts of ``judge`` rest on, each observation once, in plan order; checks without one have none here."""
    matcher = Matcher(plan=plan, builds=builds, sources=sources, base=base or {})
    found, same = ((check, matcher.matches(check)) for check in plan.checks), same_code_workloads(plan, matcher)
    matches = (
        many[0] if len(many) == 1 else _evaluate_first_failure(plan, check, many, references or References(), same)[0]
        for check, many in found
    )
    return tuple({id(match.observation): match for match in matches if match.observation is not None}.values())


def workloads_without_base(
    plan: Plan, builds: tuple[BuildEvidence, ...], sources: tuple[Source, ...], base: Mapping[str, Identity] | None = None
) -> dict[str, str]:
    """Workloads of which all measurements of these very codes say that the base cannot run them, and how."""
    matcher = Matcher(plan=plan, builds=builds, sources=sources, base=base or {})
    cannot: dict[str, str] = {}
    for check in plan.checks:
        if check.gate.evidence is Kind.COMPARISON:
            said = [_cannot(match.observation) for match in matcher.matches(check)]
            cannot |= {check.target: said[0]} if all(said) else {}
    return cannot


def same_code_workloads(plan: Plan, matcher: Matcher) -> frozenset[str]:
    """Workloads of which base and head are one code, by all that answers: they are not timed."""
    return frozenset(
        check.target
        for check in plan.checks
        if check.gate.evidence is Kind.COMPARISON and all(_is_same_code(match.observation) for match in matcher.matches(check))
    )


def _is_same_code(observation: Observation | None) -> bool:
    if observation is None or observation.base is None:
        return False
    return is_same_code(observation.base, observation.identity)


def comparison_context(
    plan: Plan, check: Check, provenance: Provenance, references: References, *, same: Container[str]
) -> ComparisonContext:
    """What a check on speed needs to know besides its samples.

    All rows of one statistic share its error, but for those whose code is the ``same`` on both sides: they cannot be wrong.
    """
    roof = next(workload.roof for workload in plan.workloads if workload.id == check.target)
    alike = [other for other in plan.checks if other.gate.statistic is check.gate.statistic]
    rows = sum(not (other.gate.evidence is Kind.COMPARISON and other.target in same) for other in alike)
    return ComparisonContext(roof=roof, rows=rows, provenance=provenance, references=references)


def _evaluate_first_failure(
    plan: Plan, check: Check, matches: Sequence[MatchedEvidence], references: References, same: Container[str]
) -> tuple[MatchedEvidence, Evaluation]:
    """The match that answers, with its answer: the first that fails, else the first."""
    answers = [(match, _evaluate(plan, check, match, references, same)) for match in matches]
    return next((one for one in answers if one[1].outcome is Outcome.FAIL), answers[0])


def _evaluate(plan: Plan, check: Check, match: MatchedEvidence, references: References, same: Container[str]) -> Evaluation:
    if match.observation is not None and match.source is not None:
        relative = RELATIVE_EVALUATORS.get(check.gate.statistic)
        if relative is None:
            return evaluate(check, match.observation)
        context = comparison_context(plan, check, match.source.evidence.provenance, references, same=same)
        return relative(check, match.observation, context)
    missing = match.missing or Missing(code=Code.NO_EVIDENCE, message="no evidence")
    return evaluate_missing(missing, (("changed", ", ".join(match.changed)),) if match.changed else ())


def _verdict(check: Check, match: MatchedEvidence, found: Evaluation, stale: StalePolicy, sharing: int) -> Verdict:
    """The verdict before waivers. ``sharing``: how many checks share the observation, and so its seconds."""
    gate, observation = check.gate, match.observation
    red = found.outcome is not Outcome.PASS
    deferred = stale is StalePolicy.DEFER and found.reason.code in DEFERRABLE_CODES and gate.evidence not in STATIC_KINDS
    told = observation.notes if observation and (red or gate.evidence is not Kind.RESOURCES) else ()
    return Verdict(
        gate=gate.id,
        title=gate.title,
        evidence=gate.evidence,
        target=check.target,
        scope=check.scope,
        subject=check.subject,
        outcome=found.outcome,
        severity=check.limit.severity,
        blocks=red and not deferred and check.limit.severity is Severity.BLOCKING,
        deferred=deferred,
        reason=found.reason,
        reading=found.reading,
        rule=gate.rule,
        limit=check.limit.value,
        unit=check.limit.unit,
        origin=match.origin,
        next_step=NEXT_STEP.get(found.reason.code, ""),
        why=check.limit.why or gate.why,
        findings=findings_for(gate, observation) if observation else (),
        notes=(*told, *found.notes),
        seconds=observation.seconds / sharing if observation else 0.0,
    )


def _cannot(observation: Observation | None) -> str:
    """How the base failed to run it, if that is what the observation of a known base says."""
    missing = observation.missing if observation is not None and observation.base is not None else None
    return missing.message if missing is not None and missing.code is Code.NO_BASE else ""


def _provenance(plan: Plan, matches: Sequence[MatchedEvidence], sources: Sequence[Source]) -> Provenance | None:
    """Where the measurements came from: of the first source that answered a check on a workload, else of the first source."""
    used = (match.source for check, match in zip(plan.checks, matches, strict=True) if check.scope is Scope.WORKLOAD)
    first = next((source for source in (*used, *sources) if source is not None), None)
    return first.evidence.provenance if first else None


def _notes(plan: Plan, matches: Sequence[MatchedEvidence]) -> Iterator[str]:
    """What the verdict covers, and what the sources that it rests on have to say."""
    targets = {scope: {check.target for check in plan.checks if check.scope is scope} for scope in Scope}
    covered = ", ".join(f"{SCOPE_NOUNS[scope]}: {len(names)}" for scope, names in targets.items() if names)
    yield f"{len(plan.checks)} checks ({covered or 'none'}); {len(plan.excluded)} combinations do not apply"
    answering = {id(match.source): match.source for match in matches if match.source}
    for source in answering.values():
        for note in source.evidence.notes:
            yield note if source.origin.kind == "live" else f"{note} ({source.origin.detail})"
