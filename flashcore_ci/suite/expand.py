"""Expand one workload table into its workloads.

``each`` gives axes (every combination), ``cases`` gives lists of parameters. Both override ``params``. In id, subject
and tags ``{sq}`` is a parameter's value, and ``{causal?-causal}`` is the text after the question mark if it is true.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

from flashcore_ci.model.suite import Scalar, Workload
from flashcore_ci.suite.tables import WorkloadTable

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


def fill(template: str, params: Mapping[str, Scalar]) -> str:
    """Replace the fields of ``template``. KeyError names an unknown parameter."""

    def value_of(match: re.Match[str]) -> str:
        value, text = params[match[1]], match[2]
        if text is not None:
            return text if value else ""
        return str(value).lower() if isinstance(value, bool) else str(value)

    return FIELD.sub(value_of, template)
