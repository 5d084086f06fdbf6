"""The samples of a run, compared with the results that its timing processes wrote.

The worker wrote these files, and no tool did. A time that is altered in one place alone is refused.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NoReturn

from flashcore_ci.bounded.files import MAX_RECORD
from flashcore_ci.bounded.values import loads
from flashcore_ci.collect.process_runs import GRAPH_KEY, GROUP_KEYS, SAMPLE_KEYS
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.identity import GRAPH_LAUNCHES
from flashcore_ci.model.metrics import ANCHOR, SIDES
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.suite import Kind

FIX = "collect again: evidence.json or a tool's file was altered"
MAX_MESSAGE = 500


def refuse(message: str) -> NoReturn:
    """Refuse the run in one line. Names in it come from the run."""
    line = "".join(character if character.isprintable() else "?" for character in message[:MAX_MESSAGE])
    raise EvidenceError(line, fix=FIX)


class ProcessResults:
    """The results of a run's timing processes. Each file is parsed once."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._outcomes = cache(self._parse)

    def check(self, observation: Observation) -> Missing | None:
        """Return why there are no samples to trust. EvidenceError for a sample that no process wrote, or in another order."""
        absent = next((name for name in observation.artifacts if name not in self._files), "")
        if absent or (observation.samples and not observation.artifacts):
            return Missing(code=Code.NO_TOOL_FILE, message=f"the run does not hold {absent or 'the results of the processes'}")
        for metric, samples in observation.samples:
            written = self._written(observation, metric)
            lost = next((value for value in samples.values if value not in written), None)
            if lost is not None:
                of = f"{metric} of {observation.target}"
                refuse(f"no process wrote the sample {lost!r} {samples.unit} that evidence.json has for {of}")
        self._check_graphs(observation)
        for metric, key in GROUP_KEYS.items():
            recorded = dict(observation.readings).get(metric)
            if isinstance(recorded, Measured) and recorded.value != self._median(observation, key):
                refuse(
                    f"evidence.json says {recorded.value!r} {recorded.unit} for {metric} of {observation.target}, and the processes another"
                )
        return None

    def _check_graphs(self, observation: Observation) -> None:
        """Times of graphs are of another kind than others, so evidence cannot leave out that they are."""
        outcomes = [self._outcomes(file).get(observation.target, {}) for file in observation.artifacts]
        launches = [outcome.get(GRAPH_KEY) for outcome in outcomes if "missing" not in outcome and "ms" in outcome]
        recorded = dict(observation.readings).get(GRAPH_LAUNCHES)
        said = recorded.value if isinstance(recorded, Measured) else None
        other = next((count for count in launches if (count is None) != (said is None)), said)
        if observation.kind is Kind.TIMING:  # the sides of a comparison may need other numbers of buffers
            other = next((count for count in launches if count != said), other)
        if other != said:
            words = [f"{count} launches in a graph" if count else "no graphs" for count in (said, other)]
            refuse(f"evidence.json says {words[0]} for {observation.target}, and its processes {words[1]}")

    def _median(self, observation: Observation, key: str) -> float | None:
        outcomes = (self._outcomes(file).get(observation.target, {}) for file in observation.artifacts)
        values = [outcome.get(key) for outcome in outcomes if "missing" not in outcome and "ms" in outcome]
        if not values or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            return None
        return statistics.median(float(value) for value in values)

    def _written(self, observation: Observation, metric: str) -> Iterator[float]:
        """Yield what the processes wrote, in order. Of a comparison, those of one side."""
        side, _, name = metric.partition("/") if metric.startswith((*SIDES, ANCHOR)) else ("", "", metric)
        for file in observation.artifacts:
            if not side or f"-{side}" in file:
                value = self._outcomes(file).get(observation.target, {}).get(SAMPLE_KEYS.get(name, ""))
                if isinstance(value, int | float) and not isinstance(value, bool):
                    yield float(value)

    def _parse(self, name: str) -> dict[str, Any]:
        try:
            data = self._files[name]
            outcomes = loads(data)["outcomes"] if len(data) <= MAX_RECORD else {}
            return {target: outcome for target, outcome in outcomes.items() if isinstance(outcome, dict)}
        except (ValueError, TypeError, LookupError, AttributeError):
            return {}
