"""Run compute-sanitizer's four checks, and list the launches that they check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from flashcore_ci.adapters import process, sanitizer, sanitizer_log
from flashcore_ci.adapters.nvcc import path_in_checkout
from flashcore_ci.adapters.sanitizer_log import Launch
from flashcore_ci.collect import child, group, isolation, positive_control
from flashcore_ci.collect.child import Wrap
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import Code
from flashcore_ci.model.coverage import describe_foreign
from flashcore_ci.model.evidence import Finding, Observation
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured, Missing, Reading
from flashcore_ci.model.suite import Kind, Workload

LAUNCHES = 2  # the second one finds what the first left behind
VARIABLES = {**sanitizer.VARIABLES, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # one allocation per tensor: overruns leave its bounds
LAUNCH_LIST = "roll-call"
NO_CRASH = frozenset({0, sanitizer.ERROR_EXIT})
CLEAN = Measured(value=0.0, unit="count")
SLOWEST = "racecheck"  # it takes twice as long as the others
PART_OF, ENOUGH = 6, 24  # so many of its workloads are worth one more process, if there are enough
PARTS = ("", "+2", "+3", "+4")  # what ends those processes' names, and no workload's id

Workloads = tuple[Workload, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What one check reported for one workload. ``unfinished``: why there may be more findings."""

    findings: Reading
    unfinished: Missing | None = None
    found: tuple[Finding, ...] = ()
    log: Path | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedLaunches:
    """Kernels between a workload's marks: checked by the tool, and others."""

    checked: tuple[str, ...]
    others: tuple[str, ...]


def collect(session: Session) -> tuple[Observation, ...]:
    """Return one observation per workload."""
    workloads = session.workloads(Kind.SANITIZER)
    if not workloads:
        return ()
    failures = group.record_messages(session, workloads)
    lost = tuple(
        session.observation(Kind.SANITIZER, each, missing=failures[each.id]) for each in workloads if each.id in failures
    )
    workloads = tuple(each for each in workloads if each.id not in failures)
    if not workloads:
        return lost
    tool = session.require_sanitizer()
    version = dict(session.versions()).get("compute-sanitizer", "")
    with ThreadPoolExecutor(2 * len(SANITIZER_TOOLS) + 1) as pool:
        listing = pool.submit(_list_launches, session, tool, workloads)
        controlled = () if sanitizer.is_too_old(version) else SANITIZER_TOOLS
        controls = [pool.submit(positive_control.run_control, session, tool, name) for name in controlled]
        checks = [pool.submit(_check, session, tool, version, name, workloads) for name in SANITIZER_TOOLS]
        launches = listing.result()
        failed = {name: future.result() for name, future in zip(SANITIZER_TOOLS, controls, strict=False)}
        finished = {name: check.result() for name, check in zip(SANITIZER_TOOLS, checks, strict=True)}
        results = {name: _require_control(result, failed.get(name)) for name, result in finished.items()}
    by_workload = {workload.id: {name: by_id[workload.id] for name, by_id in results.items()} for workload in workloads}
    return (*lost, *(_observe(session, each, by_workload[each.id], launches[each.id]) for each in workloads))


def _require_control(results: dict[str, CheckResult], failed: Missing | None) -> dict[str, CheckResult]:
    if failed is None:
        return results
    clean = {name: result for name, result in results.items() if result.findings == CLEAN}
    return results | {name: replace(result, findings=failed) for name, result in clean.items()}


def _check(session: Session, tool: Path, version: str, name: str, workloads: Workloads) -> dict[str, CheckResult]:
    if sanitizer.is_too_old(version):
        too_old = sanitizer.read_findings(sanitizer_log.parse("", name), returncode=0, version=version, ran=False)
        return {workload.id: CheckResult(findings=too_old) for workload in workloads}
    bulk = tuple(workload for workload in workloads if _loads_bulk_copies(session, name, workload))
    others = tuple(workload for workload in workloads if workload not in bulk)
    many = name == SLOWEST and len(others) * session.shards >= ENOUGH  # other shards may measure as many at this time
    count = max(1, min(len(PARTS), len(others) // PART_OF)) if many else 1
    if name != SLOWEST:
        session.may_start()
    parts = ((name + part, others[i::count]) for i, part in enumerate(PARTS[:count]))  # neighbours take about as long
    groups = [each for each in (*parts, (name, bulk)) if each[1]]
    with ThreadPoolExecutor(len(groups)) as pool:
        checked = pool.map(lambda group: _check_group(session, tool, version, *group), groups)
        return {key: value for group in checked for key, value in group.items()}


def _loads_bulk_copies(session: Session, name: str, workload: Workload) -> bool:
    """Whether the check misreads ordinary loads of bulk-copied data."""
    if name not in sanitizer.GLOBAL_ONLY:
        return False
    build = session.plan.description(workload.subject).build
    entries = session.entries(workload)
    return build is not None and any(entry.loads_bulk_copies for entry in build.entries if entry.symbol in entries)


def _check_group(session: Session, tool: Path, version: str, name: str, workloads: Workloads) -> dict[str, CheckResult]:
    """Check workloads together until the log is not clean, then alone, to attribute findings."""
    unhealthy = Missing(code=Code.DEVICE_UNHEALTHY, message=f"a known-good kernel failed after {name}")

    def together(workloads: Workloads) -> dict[str, CheckResult]:
        results = _run_check(session, tool, version, name, workloads)
        if _may_blame(results, session):
            return results
        return {workload.id: CheckResult(findings=unhealthy) for workload in workloads}

    def again(results: dict[str, CheckResult]) -> Workloads:
        return () if all(_is_final(result.findings) for result in results.values()) else workloads

    def alone(workload: Workload) -> CheckResult:
        return _run_check(session, tool, version, name, (workload,))[workload.id]

    first, second = isolation.run_together_then_alone(
        workloads, together=together, again=again, alone=alone, at_once=isolation.AT_ONCE
    )
    if not _may_blame(second, session):
        dead = {name: result for name, result in second.items() if _died(result)}
        second |= {name: replace(result, findings=unhealthy) for name, result in dead.items()}
    return first | second


def _died(result: CheckResult) -> bool:
    return isinstance(result.findings, Missing) and result.findings.code in child.DEATHS


def _may_blame(results: dict[str, CheckResult], session: Session) -> bool:
    return not any(_died(result) for result in results.values()) or session.is_healthy()


def _is_final(reading: Reading) -> bool:
    if isinstance(reading, Missing):
        return reading.code in {Code.INTERRUPTED, Code.DEVICE_UNHEALTHY}
    return reading.value == 0


def _run_check(session: Session, tool: Path, version: str, name: str, workloads: Workloads) -> dict[str, CheckResult]:
    """Check in one process. For several workloads only a clean reading counts."""
    check = name.partition("+")[0]
    bulk = _loads_bulk_copies(session, check, workloads[0])
    log = _log(session, f"{name}-bulk" if bulk else name, workloads)
    kernels = _kernels(session, workloads)
    argv = partial(sanitizer.argv, tool, check, kernels=kernels, log=log, bulk=bulk)
    should_stop = bool if len(workloads) == 1 else partial(_has_entry, log, check)
    results = _launch(session, name, workloads, lambda command: argv(command=command), should_stop)
    report = sanitizer_log.parse(process.read_text(log), check)
    checked = {}
    for workload in workloads:
        result = results[workload.id]
        completed = result.completed
        ran = result.missing is None and result.values.get("launches") == LAUNCHES
        returncode = -1 if completed is None else completed.returncode
        reading = sanitizer.read_findings(report, returncode=returncode, version=version, ran=ran)
        if result.missing is not None and not (isinstance(reading, Measured) and reading.value > 0):
            reading = result.missing
        unfinished = result.missing or sanitizer.why_cut(report)
        if unfinished is None and not ran:
            unfinished = Missing(code=Code.CRASH, message="the target did not finish its launches")
        checked[workload.id] = CheckResult(
            unfinished=unfinished,
            findings=child.unless_stopped(reading) if isinstance(reading, Missing) else reading,
            found=report.findings,
            log=log if log.exists() else None,
            seconds=0.0 if completed is None else round(completed.seconds / len(workloads), 3),
        )
    return checked


def _has_entry(log: Path, name: str) -> bool:
    """Tell whether a finding is in the log so far."""
    text = process.read_text(log)
    return bool(sanitizer_log.parse(text[: text.rfind("\n") + 1], name).entry)


def _list_launches(session: Session, tool: Path, workloads: Workloads) -> dict[str, ObservedLaunches | Missing]:
    session.may_start()
    together = partial(_list_in_one_process, session, tool)

    def again(listed: dict[str, ObservedLaunches | Missing]) -> Workloads:
        missing = tuple(workload for workload in workloads if isinstance(listed[workload.id], Missing))
        return () if process.stopping() else missing

    def alone(workload: Workload) -> ObservedLaunches | Missing:
        return together((workload,))[workload.id]

    first, second = isolation.run_together_then_alone(
        workloads, together=together, again=again, alone=alone, at_once=isolation.AT_ONCE
    )
    return first | second


def _list_in_one_process(session: Session, tool: Path, workloads: Workloads) -> dict[str, ObservedLaunches | Missing]:
    log = _log(session, LAUNCH_LIST, workloads)
    kernels = _kernels(session, workloads)
    argv = partial(sanitizer.launch_list_argv, tool, kernels=kernels, log=log)
    results = _launch(session, LAUNCH_LIST, workloads, lambda command: argv(command=command))
    launches = sanitizer_log.read_launches(process.read_text(log))
    marks = sanitizer_log.marks_of(launches)
    return {each.id: results[each.id].missing or between_marks(launches, index, marks) for index, each in enumerate(workloads)}


def between_marks(
    launches: Sequence[Launch] | Missing, index: int, marks: list[tuple[int, Launch]] | None = None
) -> ObservedLaunches | Missing:
    """Return the launches between a workload's marks, once each. ``marks``: those of ``sanitizer_log.marks_of``."""
    if isinstance(launches, Missing):
        return launches
    marks = sanitizer_log.marks_of(launches) if marks is None else marks
    here = [(place, launch.kernel) for place, launch in marks if launch.width == index + 1]
    if [kernel for _, kernel in here] != list(sanitizer_log.MARKS):
        message = "the tool's list of launches does not hold this workload's marks once"
        return Missing(code=Code.NO_LAUNCH_CHECKED, message=message)
    (first, _), (last, _) = here
    if any(first < place < last for place, _ in marks):
        return Missing(code=Code.NO_LAUNCH_CHECKED, message="another workload's mark is between this workload's marks")
    inside = launches[first + 1 : last]
    checked, others = (tuple(launch.kernel for launch in inside if launch.checked is wanted) for wanted in (True, False))
    return ObservedLaunches(checked=checked, others=others)


def _launch(
    session: Session, name: str, workloads: Workloads, wrap: Wrap, should_stop: Callable[[], bool] = bool
) -> dict[str, WorkloadResult]:
    seconds, options = session.seconds(Kind.SANITIZER), {"launches": LAUNCHES}
    spec = session.job(
        "launch", name, workloads, seconds=seconds, options=options, variables=VARIABLES, permitted=NO_CRASH, wrap=wrap
    )
    return isolation.run_once(replace(spec, should_stop=should_stop))


def _kernels(session: Session, workloads: Workloads) -> tuple[str, ...]:
    """Return the planned entry functions. An empty tuple means every kernel."""
    named = [session.entries(workload) for workload in workloads]
    return tuple(sorted({kernel for kernels in named for kernel in kernels})) if all(named) else ()


def _log(session: Session, name: str, workloads: Workloads) -> Path:
    suffix = f"-{workloads[0].id}" if len(workloads) == 1 else ""
    return session.artifact("sanitizer", f"{name}{suffix}.log")


def _observe(
    session: Session, workload: Workload, checks: dict[str, CheckResult], launches: ObservedLaunches | Missing
) -> Observation:
    count = count_checked(launches, session.entries(workload), session.foreign(workload))
    readings: list[tuple[str, Reading]] = []
    for name, check in checks.items():
        unsure = isinstance(count, Missing) and check.findings == CLEAN
        readings.append((f"{name}/findings", count if unsure else check.findings))
        missing = check.findings if isinstance(check.findings, Missing) else check.unfinished
        readings.append((f"{name}/launches", missing or count))
    others = sorted(set(launches.others)) if isinstance(launches, ObservedLaunches) else []
    return session.observation(
        Kind.SANITIZER,
        workload,
        readings=tuple(readings),
        findings=tuple(
            replace(finding, file=path_in_checkout(finding.file, session.root))
            for check in checks.values()
            for finding in check.found
        ),
        notes=tuple(f"also launched, and not checked: {kernel[:80]}" for kernel in others),
        artifacts=tuple(session.relative(check.log) for check in checks.values() if check.log is not None),
        seconds=sum(check.seconds for check in checks.values()),
    )


def count_checked(launches: ObservedLaunches | Missing, entries: Sequence[str], foreign: Mapping[str, str]) -> Reading:
    """Count the checked launches, or say which kernel lacks them, or is ``foreign``."""
    if isinstance(launches, Missing):
        return launches
    if ran := describe_foreign((*launches.checked, *launches.others), foreign):
        return Missing(code=Code.FOREIGN_KERNEL, message=ran)
    if absent := sorted(set(entries) - set(launches.checked)):
        code = Code.KERNEL_NOT_SEEN if launches.checked or launches.others else Code.NO_LAUNCH_CHECKED
        return Missing(code=code, message=f"{absent[0]} was not among the launches that the tool checks")
    if not launches.checked:
        return Missing(code=Code.NO_LAUNCH_CHECKED, message="the tool saw no launch to check")
    fewest = min((launches.checked.count(entry) for entry in entries), default=LAUNCHES)
    if fewest < LAUNCHES:
        return Missing(code=Code.NO_LAUNCH_CHECKED, message=f"{fewest} of {LAUNCHES} launches of a planned kernel were checked")
    return Measured(value=float(len(launches.checked)), unit="count")
