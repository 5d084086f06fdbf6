"""Complete a suite file: a default for each key that a beginner cannot know.

Each default is a plain value in the document, so it is checked, planned, recorded and compared (``bar``) like one that was written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flashcore_ci.model.metrics import MAX_SHARE, METRICS
from flashcore_ci.model.suite import ISOLATED_KINDS, STATIC_KINDS, Kind, Rule, Statistic
from flashcore_ci.suite.tables import RELATIVE

Document = dict[str, Any]

RIDGE = {"device": "NVIDIA H200", "flops": 989e12, "bandwidth": 4.8e12}
"""From the datasheet: dense fp16 FLOP/s and byte/s."""
TIMEOUTS = {Kind.CORRECTNESS: 240, Kind.SANITIZER: 240, Kind.PROFILE: 240, Kind.TIMING: 180, Kind.COMPARISON: 180}
PROTOCOL: Document = {
    "timing_processes": 5,
    "repeats": 100,
    "timeouts": {str(kind): seconds for kind, seconds in TIMEOUTS.items()},
}
OWNER = "maintainers"
STANDARD_GATES: dict[str, tuple[str, float]] = {
    "build": ("build/errors", 0),
    "finite": ("finite/bad-values", 0),
    "repeatable": ("repeat/differing-runs", 0),
    "error-ratio": ("error/ratio", 1),
    "memcheck": ("memcheck/findings", 0),
    "racecheck": ("racecheck/findings", 0),
    "synccheck": ("synccheck/findings", 0),
    "initcheck": ("initcheck/findings", 0),
    "no-slower": ("slowdown/primary", 1),
}
"""The gates of a suite without ``[[gate]]``: the metric and its limit. A gate with one of these ids has them as defaults."""


class Defaults:
    """Fills a document, and remembers each key with its value."""

    def __init__(self, document: Document) -> None:
        self.document: Document = {key: _copied(value) for key, value in document.items()}
        self.filled: list[tuple[str, str]] = []

    def set(self, table: Document, where: str, key: str, value: Any) -> None:
        """Give ``key`` its default, unless it is written."""
        if key not in table:
            table[key] = value
            self.filled.append((f"{where}.{key}".lstrip("."), json.dumps(value, ensure_ascii=False, default=str)))

    def tables(self, name: str) -> list[tuple[str, Document]]:
        """Return the tables of a list with their keys."""
        tables = self.document.get(name)
        return [
            (f"{name}[{i}]", table)
            for i, table in enumerate(tables if isinstance(tables, list) else ())
            if isinstance(table, dict)
        ]


def complete(document: Mapping[str, Any], *, stem: str, subjects: str = "") -> Defaults:
    """Complete a document. ``stem`` is the file's name, and ``subjects`` the folder of subjects without ``file``."""
    made = Defaults(dict(document))
    top = made.document
    made.set(top, "", "name", stem)
    made.set(top, "", "ridge", dict(RIDGE))
    top.setdefault("protocol", {})
    if isinstance(top["protocol"], dict):
        for key, value in PROTOCOL.items():
            made.set(top["protocol"], "protocol", key, value)
    for where, table in made.tables("subject"):
        if subjects and isinstance(table.get("name"), str):
            made.set(table, where, "file", f"{subjects.rstrip('/')}/{table['name']}.py")
    isolated = {
        str(table.get("name")) for _, table in made.tables("subject") if table.get("candidate") or table.get("trust") == "none"
    }
    if "gate" not in top:
        apart = isolated and isolated == {str(table.get("name")) for _, table in made.tables("subject")}
        made.set(
            top, "", "gate", [{"id": gate} for gate, (metric, _) in STANDARD_GATES.items() if not apart or _can_isolate(metric)]
        )
    for where, table in made.tables("gate"):
        _complete_gate(made, where, table, top["protocol"])
    _complete_workloads(made, isolated)
    return made


def _complete_gate(made: Defaults, where: str, table: Document, protocol: Any) -> None:
    standard = STANDARD_GATES.get(str(table.get("id")))
    if standard is not None:
        made.set(table, where, "metric", standard[0])
    metric = METRICS.get(str(table.get("metric")))
    made.set(table, where, "owner", OWNER)
    if metric is None:  # which is an error of its own, and must not make others
        table |= {"title": "none", "why": "none", "evidence": "build", "rule": "<="} | table
        return
    name = table["metric"]
    made.set(table, where, "evidence", str(metric.kind))
    statistic = RELATIVE.get(name, Statistic.RELATIVE_STD) if metric.sampled else Statistic.VALUE
    if metric.sampled:
        made.set(table, where, "statistic", str(statistic))
    if statistic in {Statistic.RELATIVE_STD, Statistic.DRIFT}:
        made.set(table, where, "min_samples", protocol.get("timing_processes", 1) if isinstance(protocol, dict) else 1)
    if metric.lower_is_better or statistic is not Statistic.VALUE:
        made.set(table, where, "rule", str(Rule.AT_MOST))
    elif metric.maximum == MAX_SHARE:
        made.set(table, where, "rule", str(Rule.AT_LEAST))
    if standard is not None and standard[0] == name:
        made.set(table, where, "limits", [{"value": standard[1]}])
    unit = metric.unit if statistic is Statistic.VALUE else "%"
    limits = table.get("limits")
    for index, limit in enumerate(limits if isinstance(limits, list) else ()):
        if isinstance(limit, dict):
            made.set(limit, f"{where}.limits[{index}]", "unit", unit)
    made.set(table, where, "title", f"Is {metric.meaning} within the limit?")
    made.set(table, where, "why", f"It judges {metric.meaning}.")


def _complete_workloads(made: Defaults, isolated: set[str]) -> None:
    names = [table.get("name") for _, table in made.tables("subject")]
    judged = {str(table.get("evidence")) for _, table in made.tables("gate")}
    kinds = [kind for kind in Kind if kind not in STATIC_KINDS and str(kind) in judged]
    for where, table in made.tables("workload"):
        if len(names) == 1 and names[0] is not None:
            made.set(table, where, "subject", names[0])
        can = [kind for kind in kinds if str(table.get("subject")) not in isolated or kind in ISOLATED_KINDS]
        made.set(table, where, "collect", [str(kind) for kind in can or [Kind.CORRECTNESS]])


def _can_isolate(metric: str) -> bool:
    return METRICS[metric].kind in ISOLATED_KINDS | STATIC_KINDS


def _copied(value: Any) -> Any:
    """Copy lists and tables, so that the document which was read stays as it is."""
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value
