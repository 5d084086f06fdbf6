"""Check tables together: names exist, units fit, globs match."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from flashcore_ci.model.codes import WAIVABLE, Code
from flashcore_ci.model.metrics import METRICS
from flashcore_ci.model.suite import (
    ALERTS,
    BAR,
    FINDING,
    GPUS,
    GROUP_KINDS,
    ISOLATED_KINDS,
    MAX_GPUS,
    STATIC_KINDS,
    Gate,
    Kind,
    Rule,
    Scope,
    Statistic,
    SubjectRef,
    Trust,
    Workload,
    scope_of,
)
from flashcore_ci.suite.problems import Problems, key_of, suggest
from flashcore_ci.suite.tables import RELATIVE, ProtocolTable, SubjectTable, WaiverTable

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
LIMIT_CODES = frozenset({Code.OVER_LIMIT, Code.UNDER_LIMIT})
WAIVABLE_BY_STATISTIC = {
    Statistic.VALUE: LIMIT_CODES,
    Statistic.RELATIVE_STD: LIMIT_CODES,
    Statistic.SLOWDOWN: WAIVABLE - LIMIT_CODES - {Code.DRIFTED},
    Statistic.DRIFT: frozenset({Code.DRIFTED, Code.UNDECIDED}),
}


def is_name(text: str) -> bool:
    """Tell whether ``text`` may be an id, and so a file name."""
    return NAME.fullmatch(text) is not None


def tables_of(top: Mapping[str, Any], name: str) -> list[tuple[int, dict[str, Any]]]:
    """Number the tables of the list ``name``."""
    tables = top.get(name)
    return [(index, table) for index, table in enumerate(tables) if isinstance(table, dict)] if isinstance(tables, list) else []


def check(
    problems: Problems,
    top: Mapping[str, Any],
    *,
    subjects: Mapping[str, SubjectRef],
    workloads: Mapping[str, Workload],
    gates: Mapping[str, Gate],
    protocol: ProtocolTable | None,
) -> None:
    """Report every mistake between valid tables. ``top`` is the raw document."""
    keys = {str(table.get("id")): key_of("gate", index, table) for index, table in tables_of(top, "gate")}
    for index, table in tables_of(top, "workload"):  # raw tables: an invalid table may have a second mistake
        _check_workload_table(problems, key_of("workload", index, table), table, subjects)
    written = {str(table.get("subject")) for _, table in tables_of(top, "workload")}
    for workload in workloads.values():
        name = workload.subject
        if name not in subjects and name not in written:
            problems.add(f"workload {workload.id}", f'"{name}" is not a [[subject]]{suggest(name, subjects)}')
    seen: set[str] = set()
    for index, table in tables_of(top, "gate"):
        _check_gate_table(problems, key_of("gate", index, table), table, seen)
    for gate in gates.values():
        key = keys[gate.id]
        _check_metric(problems, key, gate, protocol)
        _check_selection(problems, key, gate, subjects, workloads)


def check_waiver(problems: Problems, key: str, table: WaiverTable, gate: Gate | None) -> None:
    """Report codes that no waiver covers or that ``gate`` never gives, and findings that are not named."""
    if len(set(table.codes)) != len(table.codes):
        problems.add(f"{key}.codes", "a code is given twice")
    for code in sorted(set(table.codes) - WAIVABLE):
        problems.add(f"{key}.codes", f'no waiver covers "{code}"{suggest(code, WAIVABLE)}')
    possible = WAIVABLE_BY_STATISTIC[gate.statistic] if gate else WAIVABLE
    if gate and not possible & set(table.codes):
        names = " or ".join(f'codes = ["{code}"]' for code in sorted(possible))
        problems.add(f"{key}.codes", f"{gate.id} never gives {', '.join(table.codes)}: name what it gives, {names}")
    if table.finding and not FINDING.fullmatch(table.finding):
        grammar = "KERNEL FILE:LINE MESSAGE. Only LINE and the end of MESSAGE, after two words, may be *"
        problems.add(f"{key}.finding", f'"{table.finding}" does not name a finding: write {grammar}')


def check_trust(problems: Problems, key: str, table: SubjectTable, trust: Trust, root: Path) -> None:
    """Report a candidate that would be in the trusted process, or the reverse."""
    if trust is Trust.FULL and table.candidate:
        problems.add(f"{key}.trust", 'a subject with "candidate" is imported, and needs trust = "none"')
    if trust is Trust.NONE and not table.candidate:
        problems.add(f"{key}.candidate", 'trust = "none" needs the file with run() apart from inputs() and reference()')
    if any((root / file).resolve() == (root / table.file).resolve() for file in table.candidate):
        problems.add(f"{key}.candidate", f"{table.file} has inputs() and reference(), which the candidate must not see")


def on_gpus(problems: Problems, top: Mapping[str, Any], workload: Workload) -> Workload:
    """Give a workload the number of GPUs of its subject. Report what a group of GPUs cannot do."""
    tables = {str(table.get("name")): table for _, table in tables_of(top, "subject")}
    where, table = f"workload {workload.id}", tables.get(workload.subject, {})
    count = table.get(GPUS, 1)
    if GPUS in dict(workload.params):
        problems.add(where, f"{GPUS} is not a parameter: write {GPUS} = N in the subject's table")
    if type(count) is not int or not 1 < count <= MAX_GPUS:
        return workload
    if kinds := sorted(set(workload.collect) - GROUP_KINDS):
        problems.add(where, f'"{kinds[0]}" cannot be collected from {count} GPUs: remove it from collect')
    if table.get("trust") == Trust.NONE or table.get("candidate"):
        problems.add(where, f"a candidate that is not trusted cannot run on {count} GPUs: it would need the other ranks' memory")
    return replace(workload, params=tuple(sorted((*workload.params, (GPUS, count)))))


def _check_workload_table(problems: Problems, key: str, table: Mapping[str, Any], subjects: Mapping[str, SubjectRef]) -> None:
    subject = table.get("subject")
    isolated = isinstance(subject, str) and subject in subjects and subjects[subject].trust is Trust.NONE
    for kind in table.get("collect") or () if isolated else ():
        if kind in set(Kind) - ISOLATED_KINDS - STATIC_KINDS:
            problems.add(f"{key}.collect", f'"{kind}" cannot be collected in isolation, and trust is "none"')
    if isinstance(subject, str) and "{" not in subject and subject not in subjects:
        problems.add(f"{key}.subject", f'"{subject}" is not a [[subject]]{suggest(subject, subjects)}')
    _check_axes(problems, key, table)
    kinds = table.get("collect")
    for kind in sorted(STATIC_KINDS):
        if isinstance(kinds, list) and kind in kinds:
            problems.add(f"{key}.collect", f'"{kind}" is not collected for workloads: it comes from the build')


def _check_axes(problems: Problems, key: str, table: Mapping[str, Any]) -> None:
    """Refuse a parameter that ``cases`` and ``each`` both give: one of them would be ignored."""
    each, cases = table.get("each"), table.get("cases")
    if isinstance(each, dict) and isinstance(cases, list):
        for name in sorted({name for case in cases if isinstance(case, dict) for name in case} & each.keys()):
            problems.add(f"{key}.each.{name}", "the parameter is given twice (also in cases)")


def _check_gate_table(problems: Problems, key: str, table: Mapping[str, Any], seen: set[str]) -> None:
    name, metric = table.get("id"), table.get("metric")
    if isinstance(name, str):
        if name == BAR:
            problems.add(f"{key}.id", f'"{BAR}" is the built-in gate that compares suites: give another id')
        if name == ALERTS:
            problems.add(f"{key}.id", f'"{ALERTS}" is the built-in gate about alerts: give another id')
        if name in seen:
            problems.add(f"{key}.id", f'the id "{name}" is given twice')
        seen.add(name)
    if isinstance(metric, str) and metric not in METRICS:
        names = [name for name, candidate in METRICS.items() if candidate.kind == table.get("evidence")]
        problems.add(f"{key}.metric", f'unknown metric "{metric}"{suggest(metric, names or METRICS)}')


def _check_metric(problems: Problems, key: str, gate: Gate, protocol: ProtocolTable | None) -> None:
    if (metric := METRICS.get(gate.metric)) is None:  # noted already
        return
    if metric.kind is not gate.evidence:
        problems.add(f"{key}.evidence", f'"{gate.metric}" comes with the evidence "{metric.kind}", not "{gate.evidence}"')
    _check_statistic(problems, key, gate, sampled=metric.sampled)
    unit = metric.unit if gate.statistic is Statistic.VALUE else "%"
    for index, limit in enumerate(gate.limits):
        if limit.unit != unit:
            problems.add(f"{key}.limits[{index}].unit", f'"{gate.metric}" is judged in "{unit}", not "{limit.unit}"')
    if gate.rule is Rule.AT_LEAST:
        _check_floor(problems, key, gate, lower_is_better=metric.lower_is_better or gate.statistic is not Statistic.VALUE)
    if gate.metric in RELATIVE:
        _check_margin(problems, key, gate)
    if gate.statistic in {Statistic.VALUE, Statistic.SLOWDOWN}:
        return
    if gate.min_samples < 2:  # noqa: PLR2004 - one sample has no spread
        problems.add(f"{key}.min_samples", "a spread needs at least 2 samples")
    if protocol is not None and gate.min_samples > protocol.timing_processes:
        have = f"protocol.timing_processes is {protocol.timing_processes}"
        problems.add(f"{key}.min_samples", f"the gate needs {gate.min_samples} samples, but {have}")


def _check_statistic(problems: Problems, key: str, gate: Gate, *, sampled: bool) -> None:
    """Samples need a statistic, single values have none."""
    if sampled != (gate.statistic is not Statistic.VALUE):
        has = "samples, so it needs a statistic" if sampled else "one value, so it has no statistic"
        problems.add(f"{key}.statistic", f'"{gate.metric}" has {has}')
    elif sampled and RELATIVE.get(gate.metric, Statistic.RELATIVE_STD) is not gate.statistic:
        statistic = RELATIVE.get(gate.metric, Statistic.RELATIVE_STD)
        problems.add(f"{key}.statistic", f'"{gate.metric}" is judged by the statistic "{statistic}", not "{gate.statistic}"')


def _check_margin(problems: Problems, key: str, gate: Gate) -> None:
    if gate.rule is not Rule.AT_MOST:
        problems.add(f"{key}.rule", f'a slow-down is judged by "<=", not "{gate.rule}"')
    for index, limit in enumerate(gate.limits):
        if not limit.value > 0:
            message = f"a margin of {limit.value:g} % can never be shown: give a margin above 0"
            problems.add(f"{key}.limits[{index}].value", message)


def _check_floor(problems: Problems, key: str, gate: Gate, *, lower_is_better: bool) -> None:
    """Refuse a ``>=`` that all readings pass, or that favours the worst."""
    if lower_is_better:
        problems.add(f"{key}.rule", f'">=" asks for more of "{gate.metric}", but less is better')
    for index, limit in enumerate(gate.limits):
        if limit.value <= 0:
            problems.add(f"{key}.limits[{index}].value", f"every reading is >= {limit.value:g}, so the gate can never fail")


def _check_selection(
    problems: Problems, key: str, gate: Gate, subjects: Mapping[str, SubjectRef], workloads: Mapping[str, Workload]
) -> None:
    """Report globs and tags that match nothing. The planner checks globs over entry functions."""
    scope = scope_of(gate.evidence)
    if scope is not Scope.WORKLOAD and (gate.roofs or gate.tags):
        problems.add(key, f'roofs and tags select workloads, but "{gate.evidence}" is judged for each {scope}')
    for index, limit in enumerate(gate.limits):
        if limit.on in {earlier.on for earlier in gate.limits[:index]}:
            problems.add(f"{key}.limits[{index}].on", f'a limit for "{limit.on}" is given twice')
    tags = {tag for workload in workloads.values() for tag in workload.tags}
    for tag in gate.tags:
        if tag not in tags:
            problems.add(f"{key}.tags", f'no workload has the tag "{tag}"{suggest(tag, tags)}')
    if scope is Scope.ENTRY:
        return
    ids = list(workloads if scope is Scope.WORKLOAD else subjects)
    globs = [(f"limits[{index}].on", limit.on) for index, limit in enumerate(gate.limits)]
    for where, glob in (*(("on", glob) for glob in gate.on), *globs):
        if ids and not any(fnmatchcase(name, glob) for name in ids):  # none at all is a mistake of its own
            problems.add(f"{key}.{where}", f'"{glob}" matches no {scope}{suggest(glob, ids) if len(ids) < 20 else ""}')  # noqa: PLR2004
