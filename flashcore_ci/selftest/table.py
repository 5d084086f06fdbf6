"""Render the self-test for the terminal and for the docs."""

from __future__ import annotations

from collections.abc import Sequence

from flashcore_ci.model.verdict import Verdict
from flashcore_ci.selftest.model import REFUSED, Caught

HEAD = ("defect", "gate", "reason", "seconds")


def lines(answers: Sequence[Caught]) -> list[str]:
    """Return one aligned line per defect."""
    rows = [HEAD, *((answer.planted.name, _gate(answer), _reason(answer), _seconds(answer)) for answer in answers)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    mark = ["        ", *("caught  " if answer.is_caught else "MISSED  " for answer in answers)]
    return [
        f"{sign}{name:<{widths[0]}}  {gate:<{widths[1]}}  {reason:<{widths[2]}}  {seconds:>7}".rstrip()
        for sign, (name, gate, reason, seconds) in zip(mark, rows, strict=True)
    ]


def markdown(answers: Sequence[Caught]) -> list[str]:
    """Return a Markdown table."""
    rows = [
        f"| {answer.planted.name} | {_gate(answer)} | `{answer.found}`{'' if answer.is_caught else ' (MISSED)'} | {_effort(answer)} |"
        for answer in answers
    ]
    return ["| defect | gate that caught it | reason | seconds to the evidence |", "| --- | --- | --- | --- |", *rows]


def summary(answers: Sequence[Caught], not_green: Sequence[Verdict], uncontrolled: Sequence[str]) -> list[str]:
    """Return what is wrong with the controls, then the count."""
    wrong = [f"did not pass without a defect: {v.gate} on {v.target}: {v.reason.code}, {v.reason.message}" for v in not_green]
    wrong += [f"never passed in this run: {gate}" for gate in uncontrolled]
    count = f"{sum(answer.is_caught for answer in answers)} of {len(answers)} caught"
    return [*wrong, count if wrong else f"{count}, and everything without a defect passed"]


def _gate(answer: Caught) -> str:
    return answer.planted.gate or ("the reader" if answer.planted.reason == REFUSED else "the collector")


def _reason(answer: Caught) -> str:
    if answer.is_caught:
        return answer.found
    return (
        f"{answer.found}, not {answer.planted.reason}"
        if answer.found != answer.planted.reason
        else f"{answer.found}, which did not block"
    )


def _seconds(answer: Caught) -> str:
    return "" if answer.seconds is None else f"{answer.seconds:.1f}"


def _effort(answer: Caught) -> str:
    if answer.planted.damage:
        return "no GPU"
    if answer.planted.slower:
        return "8 rounds"
    return "compiler" if answer.seconds is None else f"{answer.seconds:.1f}"
