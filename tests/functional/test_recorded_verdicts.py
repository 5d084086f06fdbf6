"""The verdicts on the two bundles of commit c3d5a88 stay what they were: outcome, value and reason code of every check.

The test needs nothing of today's checkout but the tool. The plan, with its gates and limits, comes from the bundle. The noise and the
baselines are copies of the files at that commit. A new kernel, subject, suite, recording or baseline therefore changes nothing here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flashcore_ci.judge.judge import Source, judge
from flashcore_ci.judge.references import References
from flashcore_ci.model.baseline import Baseline
from flashcore_ci.model.noise import Noise
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.verdict import Report, StalePolicy
from flashcore_ci.run import evidence
from flashcore_ci.run.build import compiler_evidence
from flashcore_ci.store import legacy, record_files
from flashcore_ci.store.run import Run, read_run

RUNS = Path(__file__).parents[1] / "recordings/runs"
COMMIT = "c3d5a88"
CHECKS = {"hopper": 1269, "smoke": 121}

Row = tuple[str, str, str, str, float | None]
"""Gate, target, outcome, reason code, value (None: no value)."""


def judged(name: str) -> Report:
    """Judge the bundle by the plan and the builds that it recorded, as ``flashcore-ci judge`` does by a plan of its own."""
    run = read_run(RUNS / f"{COMMIT}-{name}.tar.xz")
    recorded = run.evidence
    origin = evidence.origin_of(recorded.provenance)
    compiled = Source(origin=origin, evidence=compiler_evidence(run.plan, recorded.builds, recorded.provenance))
    return judge(
        run.plan,
        recorded.builds,
        (compiled, evidence.source_of(run)),
        waivers=(),
        as_of=recorded.provenance.collected_at,
        stale=StalePolicy.BLOCK,
        tool="test",
        references=References(
            noises=(record_files.read(Noise, RUNS / f"{COMMIT}-noise.json.xz"),),
            baselines=(baseline_of(run),),
        ),
    )


def baseline_of(run: Run) -> Baseline:
    """Read the baselines of that commit, with digests in today's format, as the bundle's evidence is read."""
    names = dict(legacy.translations(run.plan, run.evidence.builds))
    old = record_files.read(Baseline, RUNS / f"{COMMIT}-baseline.json.xz")
    rows = (replace(row, asked=names.get(row.asked, ""), collector=names.get(row.collector, "")) for row in old.rows)
    return replace(old, rows=tuple(rows))


def expected(name: str) -> Iterator[Row]:
    """The committed table: per gate, outcome and code, each value with the indices of its targets."""
    table = json.loads((RUNS / f"{COMMIT}-verdicts.json").read_text(encoding="utf-8"))[name]
    for gate_id, groups in table["verdicts"].items():
        for group, values in groups.items():
            outcome, code = group.split()
            for value, indices in values.items():
                for index in indices:
                    yield gate_id, table["targets"][index], outcome, code, json.loads(value)


@pytest.mark.parametrize("name", CHECKS)
def test_recorded_verdicts_stay_the_same(name: str) -> None:
    actual = {}
    for v in judged(name).verdicts:
        value = v.reading.value if isinstance(v.reading, Measured) else None
        actual[v.gate, v.target] = (v.outcome.value, v.reason.code.value, value)
    table = {(gate_id, target): (outcome, code, value) for gate_id, target, outcome, code, value in expected(name)}
    assert len(table) == CHECKS[name]
    assert actual.keys() == table.keys()
    for key, (outcome, code, value) in table.items():
        assert actual[key][:2] == (outcome, code), key
        assert actual[key][2] == (None if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)), key
