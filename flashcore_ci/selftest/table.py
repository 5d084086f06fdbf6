"""The table of the self-test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flashcore_ci.selftest.model import REFUSED, Detection, SelfTestResult

HEAD = ("defect", "gate", "reason", "seconds")


def as_text(result: SelfTestResult) -> str:
    """Write the table and its summary for a terminal."""
    return "\n".join([*_lines(result.detections), "", *summary(result)]) + "\n"


def plain(result: SelfTestResult) -> dict[str, Any]:
    """Return the table and its summary as JSON values."""
    rows = [
        {"defect": row.defect.name, "gate": _gate(row), "reason": row.reason, "caught": row.is_right, "seconds": row.seconds}
        for row in result.detections
    ]
    return {"detections": rows, "summary": summary(result)}


def as_markdown(result: SelfTestResult) -> list[str]:
    """Write the table for the docs."""
    rows = [
        f"| {row.defect.name} | {_gate(row)} | `{row.reason}`{'' if row.is_right else ' (MISSED)'} | {_evidence(row)} |"
        for row in result.detections
    ]
    return ["| defect | gate that caught it | reason | seconds to the evidence |", "| --- | --- | --- | --- |", *rows]


def summary(result: SelfTestResult) -> list[str]:
    """Write what is wrong with sound targets, and the count."""
    red = result.not_green
    wrong = [f"did not pass without a defect: {v.gate} on {v.target}: {v.reason.code}, {v.reason.message}" for v in red]
    wrong += [f"never passed in this run: {gate}" for gate in result.uncontrolled]
    wrong += [f"caught no defect: {gate}" for gate in result.undefended]
    wrong += [f"a defect of the base is gone: {name}" for name in result.dropped]
    count = f"{sum(row.is_right for row in result.detections)} of {len(result.detections)} caught"
    return [*wrong, count if wrong else f"{count}, and everything without a defect passed"]


def _lines(detections: Sequence[Detection]) -> list[str]:
    rows = [HEAD, *((row.defect.name, _gate(row), _reason(row), _seconds(row)) for row in detections)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    marks = ["        ", *("caught  " if row.is_right else "MISSED  " for row in detections)]
    return [
        f"{mark}{name:<{widths[0]}}  {gate:<{widths[1]}}  {reason:<{widths[2]}}  {seconds:>7}".rstrip()
        for mark, (name, gate, reason, seconds) in zip(marks, rows, strict=True)
    ]


def _gate(row: Detection) -> str:
    return row.defect.gate or ("the reader" if row.defect.reason == REFUSED else "the collector")


def _reason(row: Detection) -> str:
    if row.is_right:
        return row.reason
    wanted = row.defect.reason
    return f"{row.reason}, not {wanted}" if row.reason != wanted else f"{row.reason}, which did not block"


def _seconds(row: Detection) -> str:
    return "" if row.seconds is None else f"{row.seconds:.1f}"


def _evidence(row: Detection) -> str:
    if row.defect.tampering:
        return "no GPU"
    if row.defect.slowdown:
        return "8 rounds"
    return "compiler" if row.seconds is None else f"{row.seconds:.1f}"
