"""The changes of one field that surely ask at least as much. Any other change asks less."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flashcore_ci.model.suite import Rule, Severity

Record = Mapping[str, Any]
Test = Callable[[Any, Any], bool]

UPPER = frozenset({Rule.LESS, Rule.AT_MOST})


def is_as_strict(kind: str, key: str, before: Record, after: Record) -> bool:
    """Tell whether the field ``key`` of a record of this kind asks at least as much as before. A field may be absent."""
    if (kind, key) in IGNORED or (key in before and key in after and _equal(before[key], after[key])):
        return True
    if key not in before or key not in after:
        return False
    if (kind, key) in RULED:
        return before.get("rule") == after.get("rule") and RULED[kind, key](str(before.get("rule")), before[key], after[key])
    return (kind, key) in TESTS and TESTS[kind, key](before[key], after[key])


def _equal(before: Any, after: Any) -> bool:
    """Tell 1 from true, which Python takes for equal."""
    return type(before) is type(after) and bool(before == after) and repr(before) == repr(after)


def _is_number(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _at_least(before: Any, after: Any) -> bool:
    return _is_number(before, after) and bool(after >= before)


def _at_most(before: Any, after: Any) -> bool:
    return _is_number(before, after) and bool(after <= before)


def _includes(before: Any, after: Any) -> bool:
    return isinstance(before, list) and isinstance(after, list) and set(before) <= set(after)


def _selects_more(before: Any, after: Any) -> bool:
    """An empty selection is all."""
    return after == [] or (before != [] and _includes(before, after))


def _severity(before: Any, after: Any) -> bool:
    return after in (before, Severity.BLOCKING)


def _value(rule: str, before: Any, after: Any) -> bool:
    if rule in UPPER:
        return _at_most(before, after)
    return _at_least(before, after) if rule == Rule.AT_LEAST else _is_number(before, after) and bool(before == after)


def _rows(rule: str, before: Any, after: Any) -> bool:
    """Each old row is there in its order, as strict. A new row asks at least as much as every old one."""
    remaining = list(before)
    for row in after:
        if remaining and row["on"] == remaining[0]["on"] and _row(rule, remaining[0], row):
            remaining.pop(0)
        elif not all(_row(rule, old, row) for old in before) or row["severity"] != Severity.BLOCKING:
            return False
    return not remaining


def _row(rule: str, before: Record, after: Record) -> bool:
    known = {"on", "value", "unit", "severity"}
    others = all(before.get(key) == after.get(key) for key in {*before, *after} - known)
    is_same_unit = before["unit"] == after["unit"]
    return (
        others
        and is_same_unit
        and _value(rule, before["value"], after["value"])
        and _severity(before["severity"], after["severity"])
    )


def _timeouts(before: Any, after: Any) -> bool:
    """A shorter limit sees more hangs. Without one the default holds, which may be longer."""
    old, new = (dict(map(tuple, value)) for value in (before, after))
    return set(old) == set(new) and all(_at_most(old[kind], new[kind]) for kind in old)


def _sooner(before: Any, after: Any) -> bool:
    try:
        return dt.date.fromisoformat(after) <= dt.date.fromisoformat(before)
    except (TypeError, ValueError):
        return False


def _off(before: Any, after: Any) -> bool:
    return before is True and after is False


def laxest(entries: Sequence[Record]) -> dict[str, Any]:
    """Return the budgets of the entry function that may do most, in each respect."""
    waits = [entry["max_waits_per_hgmma"] for entry in entries]
    return {
        "max_registers": max(entry["max_registers"] for entry in entries),
        "requires": [opcode for opcode in entries[0]["requires"] if all(opcode in entry["requires"] for entry in entries)],
        "max_waits_per_hgmma": None if None in waits else max(waits),
        "loads_bulk_copies": any(entry["loads_bulk_copies"] for entry in entries),
    }


IGNORED = frozenset({("entry", "source"), ("entry", "dynamic_shared_bytes"), ("ridge", "link")})
"""Where an entry function is, and how much shared memory it takes: no gate has a limit on them. A gate on a share of ``link`` names it itself."""

RULED: dict[tuple[str, str], Callable[[str, Any, Any], bool]] = {("check", "value"): _value, ("gate", "limits"): _rows}

TESTS: dict[tuple[str, str], Test] = {
    ("check", "severity"): _severity,
    ("check", "min_samples"): _at_least,
    ("gate", "min_samples"): _at_least,
    ("gate", "on"): _includes,
    ("gate", "roofs"): _selects_more,
    ("gate", "tags"): _selects_more,
    ("workload", "collect"): _includes,
    ("workload", "tags"): _includes,
    ("protocol", "timing_processes"): _at_least,
    ("protocol", "repeats"): _at_least,
    ("protocol", "timeouts"): _timeouts,
    ("waiver", "expires"): _sooner,
    ("entry", "max_registers"): _at_most,
    ("entry", "max_waits_per_hgmma"): lambda before, after: before is None or _at_most(before, after),
    ("entry", "requires"): _includes,
    ("entry", "loads_bulk_copies"): _off,
}
