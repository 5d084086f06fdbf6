"""The four checks of compute-sanitizer, and a roll call of the launches that they checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.adapters import process, sanitizer
from flashcore_ci.adapters.sanitizer import Launch
from flashcore_ci.collect import child, isolation, positive_control
from flashcore_ci.collect.isolation import Outcome
from flashcore_ci.collect.machine import Machine, shared
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import Finding, Observation
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured, Missing, Reading
from flashcore_ci.model.suite import Kind, Workload

LAUNCHES = 2  # the second one finds what the first left behind
TOGETHER = 4
VARIABLES = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}  # each tensor an allocation of its own, with bounds to run over
ROLL_CALL = "roll-call"
NO_CRASH = frozenset({0, sanitizer.ERROR_EXIT})
CLEAN = Measured(value=0.0, unit="count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one check says of one workload."""

    findings: Reading
    found: tuple[Finding, ...] = ()
    log: Path | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Launches between a workload's two marks: kernels that the filter let the tool check, and others."""

    checked: tuple[str, ...]
    others: tuple[str, ...]


def collect(machine: Machine) -> tuple[Observation, ...]:
    """One observation for every workload that wants it, with the readings of all four checks."""
    workloads = machine.session.workloads(Kind.SANITIZER)
    if not workloads:
        return ()
    tool = machine.session.context.sanitizer
    if tool is None:
        raise CannotCollectError("compute-sanitizer is not here", fix="flashcore-ci toolchain install")
    version = dict(machine.session.versions).get("compute-sanitizer", "")
    with ThreadPoolExecutor(2 * len(SANITIZER_TOOLS) + 1) as pool:
        called = pool.submit(_roll_call, machine, tool, workloads)
        controls = (
            []
            if sanitizer.is_too_old(version)
            else [pool.submit(positive_control.failed, machine, tool, name) for name in SANITIZER_TOOLS]
        )
        checks = [pool.submit(_check, machine, tool, version, name, workloads) for name in SANITIZER_TOOLS]
        seen = called.result()
        blind = {name: future.result() for name, future in zip(SANITIZER_TOOLS, controls, strict=False)}
        checked = {
            name: _controlled(check.result(), blind.get(name)) for name, check in zip(SANITIZER_TOOLS, checks, strict=True)
        }
    return tuple(
        _observe(machine, workload, {name: by_id[workload.id] for name, by_id in checked.items()}, seen[workload.id])
        for workload in workloads
    )


def _controlled(checked: dict[str, Checked], blind: Missing | None) -> dict[str, Checked]:
    """What was found stands; that nothing was found says something only of a check that reports a planted bug."""
    if blind is None:
        return checked
    return {key: replace(one, findings=blind) if one.findings == CLEAN else one for key, one in checked.items()}


def _check(machine: Machine, tool: Path, version: str, name: str, workloads: tuple[Workload, ...]) -> dict[str, Checked]:
    """What this check says of every workload; those that need another option are a group of their own."""
    if sanitizer.is_too_old(version):
        verdict = sanitizer.read_findings(sanitizer.parse("", name), returncode=0, version=version, ran=False)
        return {workload.id: Checked(findings=verdict) for workload in workloads}
    loading = tuple(one for one in workloads if _bulk(machine, name, one))
    groups = [group for group in (tuple(one for one in workloads if one not in loading), loading) if group]
    with ThreadPoolExecutor(len(groups)) as pool:
        checked = pool.map(lambda group: _check_group(machine, tool, version, name, group), groups)
        return {key: value for group in checked for key, value in group.items()}


def _bulk(machine: Machine, name: str, workload: Workload) -> bool:
    """Whether the check minds that a kernel of this workload loads, by ordinary loads, what bulk copies wrote into shared memory."""
    if name not in sanitizer.GLOBAL_ONLY:
        return False
    build = machine.session.plan.description(workload.subject).build
    entries = machine.session.entries(workload)
    return build is not None and any(entry.loads_bulk_copies for entry in build.entries if entry.symbol in entries)


def _check_group(machine: Machine, tool: Path, version: str, name: str, workloads: tuple[Workload, ...]) -> dict[str, Checked]:
    """All workloads in one process; if that is not clean, each in its own, so that a finding has one owner."""
    whole = _run_check(machine, tool, version, name, workloads)
    if not _is_sound(whole, machine):
        return {workload.id: Checked(findings=_ill(name)) for workload in workloads}
    if len(workloads) == 1 or all(_final(checked.findings) for checked in whole.values()):
        return whole
    with ThreadPoolExecutor(TOGETHER) as pool:
        found = list(pool.map(lambda one: _run_check(machine, tool, version, name, (one,)), workloads))
    alone = {key: value for checked in found for key, value in checked.items()}
    if _is_sound(alone, machine):
        return alone
    return {key: replace(one, findings=_ill(name)) if _died(one) else one for key, one in alone.items()}


def _died(checked: Checked) -> bool:
    return isinstance(checked.findings, Missing) and checked.findings.code in child.DEATHS


def _is_sound(checked: dict[str, Checked], machine: Machine) -> bool:
    """Whether what died, if anything did, may be blamed for it: a known-good kernel still computes."""
    return not any(_died(one) for one in checked.values()) or machine.healthy()


def _ill(name: str) -> Missing:
    return Missing(code=Code.DEVICE_UNHEALTHY, message=f"a known-good kernel failed after {name}")


def _final(reading: Reading) -> bool:
    """Whether running apart can tell nothing more: all is clean, or the run was stopped."""
    return reading.code is Code.INTERRUPTED if isinstance(reading, Missing) else reading.value == 0


def _run_check(machine: Machine, tool: Path, version: str, name: str, workloads: tuple[Workload, ...]) -> dict[str, Checked]:
    """One process. Of several workloads together only a clean verdict is worth something; see ``_check_group``."""
    bulk = _bulk(machine, name, workloads[0])
    log = _log(machine, f"{name}-bulk" if bulk else name, workloads)
    kernels = _kernels(machine, workloads)
    outcomes = _launch(
        machine,
        name,
        workloads,
        lambda command: sanitizer.argv(tool, name, kernels=kernels, log=log, command=command, bulk=bulk),
    )
    said = sanitizer.parse(process.read_text(log), name)
    checked = {}
    for workload in workloads:
        outcome = outcomes[workload.id]
        done = outcome.completed
        ran = outcome.missing is None and outcome.values.get("launches") == LAUNCHES
        verdict = sanitizer.read_findings(said, returncode=-1 if done is None else done.returncode, version=version, ran=ran)
        if outcome.missing is not None and not (isinstance(verdict, Measured) and verdict.value > 0):
            verdict = outcome.missing
        checked[workload.id] = Checked(
            findings=child.unless_stopped(verdict) if isinstance(verdict, Missing) else verdict,
            found=said.findings,
            log=log if log.exists() else None,
            seconds=0.0 if done is None else round(done.seconds / len(workloads), 3),
        )
    return checked


def _roll_call(machine: Machine, tool: Path, workloads: tuple[Workload, ...]) -> dict[str, Seen | Missing]:
    """Which launches of each workload the same filter lets through. A crash here shows the launches before it."""
    whole = _call(machine, tool, workloads)
    absent = tuple(workload for workload in workloads if isinstance(whole[workload.id], Missing))
    if not absent or len(workloads) == 1 or process.stopping():
        return whole
    with ThreadPoolExecutor(TOGETHER) as pool:
        alone = list(pool.map(lambda one: _call(machine, tool, (one,)), absent))
    return whole | {key: value for seen in alone for key, value in seen.items()}


def _call(machine: Machine, tool: Path, workloads: tuple[Workload, ...]) -> dict[str, Seen | Missing]:
    log = _log(machine, ROLL_CALL, workloads)
    kernels = _kernels(machine, workloads)
    outcomes = _launch(
        machine, ROLL_CALL, workloads, lambda command: sanitizer.launch_list_argv(tool, kernels=kernels, log=log, command=command)
    )
    launches = sanitizer.parse_launches(process.read_text(log))
    return {
        workload.id: outcomes[workload.id].missing or between_marks(launches, index) for index, workload in enumerate(workloads)
    }


def between_marks(launches: Sequence[Launch], index: int) -> Seen | Missing:
    """The launches between the marks of the workload with this index: the worker's begin and end, whose grids count it."""
    inside, began, ended = [], False, False
    for launch in launches:
        if launch.kernel == "flashcore_ci_begin" and launch.width == index + 1:
            began = True
        elif launch.kernel == "flashcore_ci_end" and launch.width == index + 1:
            ended = began
            break
        elif began:
            inside.append(launch)
    if not ended:
        return Missing(code=Code.NO_LAUNCH_CHECKED, message="the tool's list of launches does not hold this workload's marks")
    return Seen(
        checked=tuple(launch.kernel for launch in inside if launch.checked),
        others=tuple(launch.kernel for launch in inside if not launch.checked),
    )


def _launch(
    machine: Machine, name: str, workloads: tuple[Workload, ...], wrap: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> dict[str, Outcome]:
    """Launch the workloads in one process under a tool; nobody is run again here."""
    order = machine.order(
        "launch",
        name,
        workloads,
        seconds=machine.session.seconds(Kind.SANITIZER),
        options={"launches": LAUNCHES},
        variables=VARIABLES,
        permitted=NO_CRASH,
        wrap=wrap,
    )
    return isolation.once(order)


def _kernels(machine: Machine, workloads: tuple[Workload, ...]) -> tuple[str, ...]:
    """The planned entry functions; none, which means every kernel, if a workload's subject names none."""
    named = [machine.session.entries(workload) for workload in workloads]
    return tuple(sorted({kernel for kernels in named for kernel in kernels})) if all(named) else ()


def _log(machine: Machine, name: str, workloads: tuple[Workload, ...]) -> Path:
    suffix = f"-{workloads[0].id}" if len(workloads) == 1 else ""
    return shared(machine.session.context.artifact("sanitizer", f"{name}{suffix}.log"))


def _observe(machine: Machine, workload: Workload, checked: dict[str, Checked], seen: Seen | Missing) -> Observation:
    context = machine.session.context
    launches = counted(seen, machine.session.entries(workload))
    readings: list[tuple[str, Reading]] = []
    for name, check in checked.items():
        unsure = isinstance(launches, Missing) and check.findings == CLEAN
        readings.append((f"{name}/findings", launches if unsure else check.findings))
        readings.append((f"{name}/launches", check.findings if isinstance(check.findings, Missing) else launches))
    others = sorted(set(seen.others)) if isinstance(seen, Seen) else []
    return machine.session.observation(
        Kind.SANITIZER,
        workload,
        readings=tuple(readings),
        findings=tuple(_in_checkout(finding, context.root) for check in checked.values() for finding in check.found),
        notes=tuple(f"also launched, and not checked: {kernel[:80]}" for kernel in others),
        artifacts=tuple(context.relative(check.log) for check in checked.values() if check.log is not None),
        seconds=sum(check.seconds for check in checked.values()),
    )


def counted(seen: Seen | Missing, entries: Sequence[str]) -> Reading:
    """How many launches of planned kernels the tool checks in this workload, or why nothing can be said."""
    if isinstance(seen, Missing):
        return seen
    absent = sorted(set(entries) - set(seen.checked))
    if absent:
        code = Code.KERNEL_NOT_SEEN if seen.checked or seen.others else Code.NO_LAUNCH_CHECKED
        return Missing(code=code, message=f"{absent[0]} was not among the launches that the tool checks")
    if not seen.checked:
        return Missing(code=Code.NO_LAUNCH_CHECKED, message="the tool saw no launch to check")
    fewest = min((seen.checked.count(entry) for entry in entries), default=LAUNCHES)
    if fewest < LAUNCHES:
        return Missing(code=Code.NO_LAUNCH_CHECKED, message=f"{fewest} of {LAUNCHES} launches of a planned kernel were checked")
    return Measured(value=float(len(seen.checked)), unit="count")


def _in_checkout(finding: Finding, root: Path) -> Finding:
    """The finding with its file as the checkout names it."""
    path = Path(finding.file)
    inside = finding.file and path.is_absolute() and path.is_relative_to(root)
    file = path.relative_to(root).as_posix() if inside else finding.file
    return replace(finding, file=file)
