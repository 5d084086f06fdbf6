from pathlib import Path
from types import SimpleNamespace

import pytest
from factories import make_workload

from flashcore_ci.collect import calibration
from flashcore_ci.collect.calibration import Ledger, Targets, next_part
from flashcore_ci.collect.isolation import WorkloadResult
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError
from flashcore_ci.model.evidence import Device, Identity, Observation
from flashcore_ci.model.noise import PLANTED_PERCENT, RecordingSession
from flashcore_ci.model.reading import Missing

DEVICE = Device(name="NVIDIA H200", uuid="GPU-1", driver="580", compute_capability="9.0", multiprocessors=132, memory=1, l2=1)
EMPTY = Ledger(key="k", sittings=(RecordingSession(collected_at="2026-11-21T12:00:00Z", device=DEVICE, processes=0),))
TARGETS = Targets(same=6, planted=3)
PILOT_EXTRA = 1000


def session(*workloads):
    identity = Identity(machine_code="m", launcher="l", binding="b", subject="s", workload="w", collector="c")
    return SimpleNamespace(
        workloads=lambda kind: workloads,
        observation=lambda kind, workload: Observation(kind=kind, target=workload.id, identity=identity),
        clock_policy="not locked",
    )


SAME = session(make_workload("long"), make_workload("short"))
PLANTED = session(make_workload("long", params=(("extra", PILOT_EXTRA), ("n", 7))))


def measured(run, *, cost=1e-4):
    """Return results without noise: a megacycle, and ``cost`` more for each unit of extra work."""
    results = {}
    for workload in run.workloads:
        cycles = 1.0 + cost * dict(workload.params).get("extra", 0)
        results[workload.id] = WorkloadResult(
            values={"ms": cycles / 1.8, "megacycles": cycles, "mhz": 1800.0}, missing=None, completed=None, result_file=Path("/r")
        )
    return results


def step(ledger, part, **how):
    run = calibration.process_run(part, ledger, len(ledger.processes), same=SAME, planted=PLANTED)
    return ledger.with_process(part, measured(run, **how))


def whole():
    ledger = EMPTY
    while (part := next_part(ledger, TARGETS)) is not None:
        ledger = step(ledger, part)
    return ledger


def test_the_pilot_is_first_and_the_others_take_turns():
    parts = [process.part for process in whole().processes]
    assert parts[0] == "pilot"
    assert parts[1:] == ["same", "planted", "same", "same", "planted", "same", "same", "planted", "same"]


def test_without_planted_ones_there_is_no_pilot():
    assert next_part(EMPTY, Targets(same=1, planted=0)) == "same"


def test_what_comes_next_is_prepared_unless_it_goes_by_the_pilot():
    assert calibration.following_part(EMPTY, "pilot", TARGETS) == "same"
    assert calibration.following_part(EMPTY, "pilot", Targets(same=0, planted=1)) is None
    assert calibration.following_part(step(EMPTY, "pilot"), "same", TARGETS) == "planted"


def test_a_level_is_as_much_work_as_the_pilot_says():
    ledger = step(EMPTY, "pilot")
    planned = calibration.process_run("planted", ledger, 1, same=SAME, planted=PLANTED)
    extras = {workload.id: dict(workload.params)["extra"] for workload in planned.workloads}
    assert extras == {"long+0.0%": 0, **{f"long+{percent}%": round(percent * 100) for percent in PLANTED_PERCENT}}


def test_work_that_costs_nothing_cannot_be_planted():
    ledger = step(EMPTY, "pilot", cost=0.0)
    with pytest.raises(CannotCollectError, match="long: the planted work could not be measured"):
        calibration.process_run("planted", ledger, 1, same=SAME, planted=PLANTED)


def test_the_model_has_all_samples_and_levels_confirmed_by_their_cycles():
    noise = calibration.noise(whole(), same=SAME, planted=PLANTED, commit="c0ffee")
    assert [(one.workload, len(one.same.ms)) for one in noise.workloads] == [("long", 6), ("short", 6)]
    planted = noise.of("long").planted
    assert [level.percent for level in planted] == list(PLANTED_PERCENT)
    assert [level.confirmed for level in planted] == pytest.approx(PLANTED_PERCENT)
    assert noise.of("short").planted == ()
    assert noise.sittings[0].processes == 10


def test_a_round_is_of_two_processes():
    level = calibration.noise(whole(), same=SAME, planted=PLANTED, commit="").of("long").planted[0]
    assert level.base.process == (2, 5)
    assert level.head.process == (5, 8)


def test_what_was_not_measured_is_a_gap():
    lost = WorkloadResult(values={}, missing=Missing(code=Code.THROTTLED, message="hot"), completed=None, result_file=Path("/r"))
    ledger = EMPTY.with_process("same", {"long": lost}).with_process(
        "same", measured(SimpleNamespace(workloads=SAME.workloads(None)))
    )
    noise = calibration.noise(ledger, same=SAME, planted=PLANTED, commit="")
    assert noise.of("long").same.process == (1,)
