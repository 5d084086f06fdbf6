"""Expand one workload table into its workloads.

``each`` gives axes (every combination), ``cases`` gives lists of parameters. Both override ``params``. In id, subject
and tags ``{sq}`` is a parameter's value, and ``{causal?-causal}`` is the text after the question mark if it is true.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from flashcore_ci.model.suite import Scalar, Workload

if TYPE_CHECKING:  # completion needs `fill` without pydantic
    from flashcore_ci.suite.tables import WorkloadTable

MAX_FILLED = 300
FIELD = re.compile(r"\{(\w+)(?:\?([^{}]*))?\}")


def expand(table: WorkloadTable) -> Iterator[Workload]:
    """Yield the workloads: cases in order, axes as nested loops. KeyError for an unknown field."""
    axes = [[(name, value) for value in values] for name, values in table.each.items()]
    for case in table.cases:
        for combination in itertools.product(*axes):
            params = {**table.params, **case, **dict(combination)}
            yield Workload(
                id=fill(table.id, params),
                subject=fill(table.subject, params),
                params=tuple(sorted(params.items())),
                roof=table.roof,
                seed=table.seed,
                collect=tuple(table.collect),
                tags=tuple(fill(tag, params) for tag in table.tags),
            )


def size_of(table: WorkloadTable) -> int:
    """Return the number of workloads, without making one."""
    return len(table.cases) * math.prod(len(values) for values in table.each.values())


def fill(template: str, params: Mapping[str, Scalar]) -> str:
    """Replace the fields of ``template``. KeyError names an unknown parameter, ValueError says that the text is too long."""

    def value_of(match: re.Match[str]) -> str:
        value, text = params[match[1]], match[2]
        if text is not None:
            return text if value else ""
        return str(value).lower() if isinstance(value, bool) else str(value)

    text = FIELD.sub(value_of, template)
    if len(text) > MAX_FILLED:
        raise ValueError(f"{template!r} becomes {len(text)} characters, and {MAX_FILLED} are allowed")
    return text
