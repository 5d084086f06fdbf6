"""Samples are those that the timing processes wrote."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from evidence_factories import make_observation

from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.identity import GRAPH_LAUNCHES
from flashcore_ci.model.reading import Measured, Samples
from flashcore_ci.model.suite import Kind
from flashcore_ci.run.process_results import ProcessResults

VALUES = (0.65, 0.66, 0.64)


def result(milliseconds: object, target: str = "big") -> bytes:
    return json.dumps({"outcomes": {target: {"ms": milliseconds, "megacycles": 1.0, "mhz": 1700.0}}}).encode()


FILES = {f"artifacts/timing/process-{number}.json": result(value) for number, value in enumerate(VALUES)}
ROUNDS = {
    f"artifacts/comparison/round-{number}-{side}.json": result(value + shift)
    for number, value in enumerate(VALUES)
    for side, shift in (("base", 0.0), ("head", 1.0))
}


def timed(values=VALUES, files=FILES):
    return make_observation(Kind.TIMING, samples=(("time/gpu/cold", Samples(values=values, unit="ms")),), artifacts=tuple(files))


def compared(base=VALUES, head=tuple(value + 1.0 for value in VALUES)):
    samples = {"base/time/gpu/cold": base, "head/time/gpu/cold": head}
    named = tuple((name, Samples(values=values, unit="ms")) for name, values in samples.items())
    return make_observation(Kind.COMPARISON, samples=named, artifacts=tuple(ROUNDS))


@pytest.mark.parametrize(
    ("observation", "files"),
    [(timed(), FILES), (timed(VALUES[1:]), FILES), (compared(), ROUNDS), (replace(timed(), samples=()), FILES)],
)
def test_samples_that_the_processes_wrote_count(observation, files):
    assert ProcessResults(files).check(observation) is None


@pytest.mark.parametrize(
    ("observation", "files"),
    [
        (timed((0.65, 0.66, 0.6)), FILES),
        (timed((0.64, 0.65, 0.66)), FILES),
        (timed((0.65, 0.65, 0.65)), FILES),
        (timed((*VALUES, 0.64)), FILES),
        (timed(), {**FILES, "artifacts/timing/process-1.json": b"[]"}),
        (timed(), {**FILES, "artifacts/timing/process-1.json": b"{"}),
        (timed(), {**FILES, "artifacts/timing/process-1.json": result("0.66")}),
        (timed(), {**FILES, "artifacts/timing/process-1.json": result(0.66, "small")}),
        (timed(), {**FILES, "artifacts/timing/process-1.json": b'{"outcomes": {"big": 0.66}}'}),
        (compared(head=VALUES), ROUNDS),
        (compared(base=tuple(value + 1.0 for value in VALUES)), ROUNDS),
    ],
)
def test_a_sample_that_no_process_wrote_is_refused(observation, files):
    with pytest.raises(EvidenceError, match=r"no process wrote the sample .* for .* of big"):
        ProcessResults(files).check(observation)


@pytest.mark.parametrize("observation", [timed(), replace(timed(), artifacts=())])
def test_without_a_process_s_result_samples_are_missing(observation):
    files = dict(list(FILES.items())[1:])
    found = ProcessResults(files).check(observation)
    assert found is not None
    assert found.code is Code.NO_TOOL_FILE


@pytest.mark.parametrize(
    ("recorded", "written", "words"),
    [
        (None, None, ""),
        (41.0, 41, ""),
        (None, 41, "no graphs for big, and its processes 41 launches in a graph"),
        (41.0, None, "41.0 launches in a graph for big, and its processes no graphs"),
        (20.0, 41, "20.0 launches in a graph"),
    ],
)
def test_evidence_cannot_leave_out_that_a_time_is_a_slope(recorded, written, words):
    """Else a slope would be compared with a baseline of graphs, which is longer."""
    more = {} if written is None else {"graph_launches": written}
    files = {
        name: json.dumps({"outcomes": {"big": {"ms": value} | more}}).encode() for name, value in zip(FILES, VALUES, strict=True)
    }
    readings = () if recorded is None else ((GRAPH_LAUNCHES, Measured(value=recorded, unit="count")),)
    observation = replace(timed(), readings=readings)
    if not words:
        assert ProcessResults(files).check(observation) is None
        return
    with pytest.raises(EvidenceError, match=f"evidence.json says {words}"):
        ProcessResults(files).check(observation)


@pytest.mark.parametrize(("sides", "refused"), [((41, 33), False), ((41, 41), False), ((41, None), True)])
def test_sides_of_a_comparison_may_have_other_numbers_of_launches(sides, refused):
    """A change of the outputs changes how many buffers fill the L2."""
    files = {
        name: json.dumps({"outcomes": {"big": {"ms": value} | ({"graph_launches": count} if count else {})}}).encode()
        for side, count in zip(("base", "head"), sides, strict=True)
        for number, value in enumerate(VALUES)
        for name in [f"artifacts/comparison/round-{number}-{side}.json"]
    }
    readings = ((GRAPH_LAUNCHES, Measured(value=41.0, unit="count")),)
    observation = replace(compared(VALUES, VALUES), readings=readings, artifacts=tuple(files))
    if not refused:
        assert ProcessResults(files).check(observation) is None
        return
    with pytest.raises(EvidenceError, match=r"says 41\.0 launches in a graph for big, and its processes no graphs"):
        ProcessResults(files).check(observation)
