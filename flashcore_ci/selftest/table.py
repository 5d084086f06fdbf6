"""The table of the self-test, for a terminal and for the docs."""

from __future__ import annotations

from collections.abc import Sequence

from flashcore_ci.model.verdict import Verdict
from flashcore_ci.selftest.model import REFUSED, Caught

HEAD = ("defect", "gate", "reason", "seconds")


def lines(answers: Sequence[Caught]) -> list[str]:
    """One aligned line a defect; what was not caught says what was found instead."""
    rows = [HEAD, *((one.planted.name, _gate(one), _reason(one), _seconds(one)) for one in answers)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    mark = ["        ", *("caught  " if one.is_caught else "MISSED  " for one in answers)]
    return [
        f"{sign}{name:<{widths[0]}}  {gate:<{widths[1]}}  {reason:<{widths[2]}}  {seconds:>7}".rstrip()
        for sign, (name, gate, reason, seconds) in zip(mark, rows, strict=True)
    ]


def markdown(answers: Sequence[Caught]) -> list[str]:
    """The same as a table."""
    rows = [
        f"| {one.planted.name} | {_gate(one)} | `{one.found}`{'' if one.is_caught else ' (MISSED)'} | {_shown(one)} |"
        for one in answers
    ]
    return ["| defect | gate that caught it | reason | seconds to the evidence |", "| --- | --- | --- | --- |", *rows]


def summary(answers: Sequence[Caught], not_green: Sequence[Verdict], uncontrolled: Sequence[str]) -> list[str]:
    """What is amiss with the controls, and the count."""
    wrong = [f"not green without a defect: {v.gate} on {v.target}: {v.reason.code}, {v.reason.message}" for v in not_green]
    wrong += [f"green on nothing in this run: {gate}" for gate in uncontrolled]
    count = f"{sum(one.is_caught for one in answers)} of {len(answers)} caught"
    return [*wrong, count if wrong else f"{count}; what has no defect is green"]


def _gate(one: Caught) -> str:
    return one.planted.gate or ("the reader" if one.planted.reason == REFUSED else "the collector")


def _reason(one: Caught) -> str:
    if one.is_caught:
        return one.found
    return f"{one.found}, not {one.planted.reason}" if one.found != one.planted.reason else f"{one.found}, which did not block"


def _seconds(one: Caught) -> str:
    return "" if one.seconds is None else f"{one.seconds:.1f}"


def _shown(one: Caught) -> str:
    """Seconds on the GPU; what needs none is as fast as the machine that reads."""
    if one.planted.damage:
        return "no GPU"
    if one.planted.slower:
        return "8 rounds"
    return "compiler" if one.seconds is None else f"{one.seconds:.1f}"
