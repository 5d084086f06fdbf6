"""Compare what base and head ask. Whatever is not known to ask more counts as less.

The bar is a table of records by name: each check, and each gate, workload, subject, waiver and reference as declared. A check
alone would not show a pattern that no present target matches. A gate alone would not show a row that an earlier one hides.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from flashcore_ci.model.bar import BarChange, BarDifference, Side
from flashcore_ci.model.codes import Code
from flashcore_ci.model.identity import digest_of
from flashcore_ci.model.plan import Check, Excluded
from flashcore_ci.model.subject import Description
from flashcore_ci.model.suite import Severity, Suite
from flashcore_ci.plan import stricter
from flashcore_ci.plan.planner import pairs

Record = dict[str, Any]
Bar = dict[str, Record]

PROSE = frozenset({"title", "why", "reason", "owner"})
"""Fields that ask nothing. All others count, also those that this version does not know the meaning of."""
POSITION = frozenset({"file", "sources", "defaults", "build"})
"""Fields of the suite that say where its values are from, or how the kernel is compiled. Digests cover that, as they cover its sources."""
SELECTION = frozenset({"on", "roofs", "tags", "limits"})
"""Fields of a gate that its checks show. The gate's own record has them too."""
NAMED = {
    "subjects": ("subject", ("name",)),
    "workloads": ("workload", ("id",)),
    "gates": ("gate", ("id",)),
    "waivers": ("waiver", ("gate", "target")),
}
"""Lists of records in a suite: their kind, and the fields that name one."""
SELFTEST = "selftest-"
CODES = {
    "waiver": Code.NEWLY_WAIVED,
    "reference": Code.REFERENCE_CHANGED,
    "dependency": Code.DEPENDENCY_CHANGED,
    "subject-file": Code.SUBJECT_CHANGED,
    "problem": Code.SUBJECT_CHANGED,
}
FREE_TO_ADD = frozenset({"check", "gate", "workload", "subject", "entry", "problem", "subject-file"})
"""Kinds of records that ask more when they are new. A new check is compared with what the base's gates ask of its target."""
FREE_TO_REMOVE = frozenset({"waiver", "problem"})


def compare(base: Side, head: Side) -> BarDifference:
    """List all that head asks less of, and digest the whole difference."""
    before, after = bar_of(base), bar_of(head)
    expected = {**_checks(base.suite, _with_gates_of(head, base)), **_expected_entries(before, after), **before}
    excluded = _excluded(head)
    differing = [name for name in sorted({*expected, *after}) if _json(expected.get(name)) != _json(after.get(name))]
    changes = (_change(name, expected.get(name), after.get(name), excluded) for name in differing)
    origin = digest_of(sorted((name, _json(record)) for name, record in before.items()))
    whole = [(name, _json(expected.get(name)), _json(after.get(name))) for name in differing]
    found = tuple(sorted((change for change in changes if change is not None), key=lambda c: (c.code, c.where)))
    return BarDifference(base=origin, digest=digest_of(origin, whole), changes=found, head=answers(head.descriptions))


def bar_of(side: Side) -> Bar:
    """Return every record of one side by its name."""
    suite = side.suite
    bar = {**_declared(suite), **_checks(suite, side), **_described(side)}
    groups = (("reference", side.references), ("dependency", side.dependencies), ("subject-file", side.subjects))
    bar |= {f"{kind} {name}": {"digest": digest} for kind, digests in groups for name, digest in digests.items()}
    bar |= {f"default {key}": {"path": path} for key, path in side.project.items()}
    bar |= _selftest(side.selftest)
    if side.selftest_suite is not None:
        bar |= {f"{SELFTEST}{name}": record for name, record in _declared(side.selftest_suite).items()}
    return bar


def bar_of_new(head: Side, where: str) -> BarDifference:
    """Return the difference of a suite that the base does not have: all of it, to be accepted as a whole."""
    origin = digest_of("no suite", where)
    change = BarChange(code=Code.CHECK_LOOSENED, where=f"suite {where}", before="", after="a new suite that no older one guards")
    digest = digest_of(origin, _json(bar_of(head)))
    return BarDifference(base=origin, digest=digest, changes=(change,), head=answers(head.descriptions))


def answers(descriptions: tuple[Description, ...]) -> str:
    """Digest what subjects say of themselves: they must say the same when suites are compared and when kernels are judged."""
    return digest_of(_json([plain(description) for description in descriptions]))


def plain(value: Any) -> Any:
    """Turn a record into JSON values, without prose."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (field.name for field in dataclasses.fields(value) if field.name not in PROSE)
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _declared(suite: Suite) -> Bar:
    bar: Bar = {}
    for field in dataclasses.fields(suite):
        value = getattr(suite, field.name)
        if field.name in POSITION:
            continue
        if field.name in NAMED:
            kind, keys = NAMED[field.name]
            for record in value:
                name = "/".join(str(getattr(record, key)) for key in keys)
                bar[_unused(bar, f"{kind} {name}")] = plain(record)
        elif dataclasses.is_dataclass(value):
            bar[field.name] = plain(value)
        else:
            bar.setdefault("suite", {})[field.name] = plain(value)
    return bar


def _unused(bar: Bar, name: str) -> str:
    """Keep both of two records whose names read the same."""
    while name in bar:
        name += "'"
    return name


def _with_gates_of(head: Side, base: Side) -> Side:
    return dataclasses.replace(head, suite=dataclasses.replace(head.suite, gates=base.suite.gates))


def _checks(suite: Suite, side: Side) -> Bar:
    found = [pair for gate in suite.gates for pair in pairs(gate, side.suite, side.descriptions)]
    known: dict[int, Record] = {}  # of gates and limits, which `found` keeps alive: thousands of checks share few
    return {_check_name(pair.gate.id, pair.target): _of_check(pair, known) for pair in found if isinstance(pair, Check)}


def _excluded(side: Side) -> frozenset[str]:
    found = (pair for gate in side.suite.gates for pair in pairs(gate, side.suite, side.descriptions))
    return frozenset(_check_name(pair.gate, pair.target) for pair in found if isinstance(pair, Excluded))


def _check_name(gate: str, target: str) -> str:
    return f"check {gate} on {target}"


def _of_check(check: Check, known: dict[int, Record]) -> Record:
    for record, left_out in ((check.gate, SELECTION), (check.limit, {"on"})):
        if id(record) not in known:
            known[id(record)] = {name: value for name, value in plain(record).items() if name not in left_out}
    return {**known[id(check.gate)], **known[id(check.limit)], "subject": check.subject, "scope": str(check.scope)}


def _described(side: Side) -> Bar:
    bar: Bar = {}
    for description in side.descriptions:
        entries = description.build.entries if description.build is not None else ()
        bar |= {f"entry {entry.symbol}": {**plain(entry), "of": description.subject} for entry in entries}
        bar |= {f"problem {problem.workload}": {**plain(problem), "of": description.subject} for problem in description.problems}
    return bar


def _expected_entries(before: Bar, after: Bar) -> Bar:
    """Demand of a new entry function what the base demands of all others of its subject."""
    found: Bar = {}
    for name in after.keys() - before.keys():
        same = [old for key, old in before.items() if key.startswith("entry ") and old["of"] == after[name].get("of")]
        if name.startswith("entry ") and same:
            found[name] = after[name] | stricter.laxest(same)
    return found


def _selftest(document: Mapping[str, Any]) -> Bar:
    """Name each row of a list by itself, so that a new row does not change the others."""
    bar: Bar = {}
    for key, value in document.items():
        for row in value if isinstance(value, list) else [value]:
            label = row.get("name", "") if isinstance(row, dict) else row if isinstance(value, list) else ""
            record = row if isinstance(row, dict) else {"value": row}
            name = _unused(bar, f"{SELFTEST}row {key} {label}".rstrip())
            bar[name] = {inner: plain(part) for inner, part in record.items()}
    return bar


def _change(name: str, before: Record | None, after: Record | None, excluded: frozenset[str]) -> BarChange | None:
    whole = name.partition(" ")[0]
    kind = whole.removeprefix(SELFTEST)
    if before is None or after is None:
        is_free = (kind in FREE_TO_REMOVE) if after is None else (kind in FREE_TO_ADD or whole != kind)
        if is_free:
            return None
        looser = sorted(before or after or {})
    else:
        keys = sorted({*before, *after})
        looser = [key for key in keys if not stricter.is_as_strict(kind, key, before, after)]
    if not looser:
        return None
    code = Code.SELFTEST_LOOSENED if whole != kind else _code(name, kind, before, after, excluded)
    subject = str((before or after or {}).get("of", name.partition(" ")[2])) if code is Code.SUBJECT_CHANGED else ""
    return BarChange(code=code, where=name, before=_text(before, looser), after=_text(after, looser), subject=subject)


def _code(name: str, kind: str, before: Record | None, after: Record | None, excluded: frozenset[str]) -> Code:
    if kind in CODES:
        return CODES[kind]
    if after is None:
        return Code.NEWLY_EXCLUDED if name in excluded else Code.CHECK_REMOVED
    was = (before or {}).get("severity")
    return Code.MADE_ADVISORY if was == Severity.BLOCKING and after.get("severity") != was else Code.CHECK_LOOSENED


def _text(record: Record | None, keys: list[str]) -> str:
    if record is None:
        return ""
    return ", ".join(f"{key} {_json(record[key]) if key in record else 'not given'}" for key in keys)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True)
