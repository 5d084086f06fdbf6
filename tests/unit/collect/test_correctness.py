import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from factories import make_workload

from flashcore_ci.collect import correctness, isolation
from flashcore_ci.collect.child import JobResult
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Histogram, Measured, Missing

GIVEN = {"diff/max": 0.001, "error/ratio": 0.5, "finite/bad-values": 0.0, "repeat/differing-runs": 0.0}


def test_numbers_get_their_units():
    readings = dict(correctness.readings(GIVEN))
    assert readings["diff/max"] == Measured(value=0.001, unit="abs")
    assert readings["finite/bad-values"] == Measured(value=0.0, unit="count")


def test_nan_and_infinity_become_a_reason():
    readings = dict(correctness.readings({**GIVEN, "diff/max": "nan", "error/ratio": "inf"}))
    assert isinstance(readings["diff/max"], Missing)
    assert {readings[name].code for name in ("diff/max", "error/ratio")} == {Code.NOT_FINITE}


def test_a_number_that_is_absent_is_missing_and_not_zero():
    readings = dict(correctness.readings({"diff/max": 0.001}))
    assert readings["repeat/differing-runs"].code is Code.METRIC_ABSENT
    assert len(readings) == 4


def test_what_an_older_worker_did_not_know_is_absent():
    assert "error/rms" not in dict(correctness.readings(GIVEN))
    assert dict(correctness.readings({**GIVEN, "error/rms": 0.25}))["error/rms"] == Measured(value=0.25, unit="ratio")
    assert dict(correctness.readings({**GIVEN, "error/rms-ratio": "nan"}))["error/rms-ratio"].code is Code.NOT_FINITE


@pytest.mark.parametrize("given", ["many", None, []])
def test_a_malformed_number_is_missing(given):
    reading = dict(correctness.readings({"diff/max": given}))["diff/max"]
    assert reading.code is Code.INVALID_RESULT


def test_histograms_of_errors():
    given = {"first": -40, "counts": [0, 3], "zeros": 2, "not_finite": 0}
    expected = Histogram(first=-40, counts=(0, 3), zeros=2, not_finite=0, unit="abs")
    assert list(correctness.histograms({"error/ours/out": given})) == [("error/ours/out", expected)]


@pytest.mark.parametrize(
    "given", [None, [], {"a": None}, {"a": {}}, {"a": {"first": 0, "counts": [-1], "zeros": 0, "not_finite": 0}}]
)
def test_a_malformed_histogram_is_skipped(given):
    assert list(correctness.histograms(given)) == []


@pytest.fixture
def ran(monkeypatch):
    """Record the workloads of every process. Those named "big" run out of memory unless they are alone."""
    processes = []

    def run(spec, start=None):
        names = [workload.id for workload in spec.workloads]
        processes.append(names)
        missing = {"missing": {"code": Code.OUT_OF_MEMORY.value, "message": "m"}}
        outcomes = {name: missing if name.startswith("big") and len(names) > 1 else {"seconds": len(names)} for name in names}
        return JobResult(outcomes=outcomes, environment={}, in_flight=None, failure=None, completed=None, result_file=Path("/r"))

    monkeypatch.setattr(isolation.child, "run", run)
    return processes


def results_of(names, processes=1):
    parts = correctness.divide(tuple(make_workload(name) for name in names), {"big"}, processes, 3)
    return correctness.run_in_parallel(parts, lambda some: SimpleNamespace(workloads=some), is_healthy=lambda: True)


def test_kernels_that_hang_wait_for_their_time_limits_side_by_side(monkeypatch):
    alone = threading.Barrier(3, timeout=10)

    def run(spec, start=None):
        names = [workload.id for workload in spec.workloads]
        failure = Missing(code=Code.HANG, message="m")
        if len(names) > 1 and names[0] != "first":
            return JobResult(
                outcomes={name: {} for name in names},
                environment={},
                in_flight=None,
                failure=None,
                completed=None,
                result_file=Path("/r"),
            )
        if len(names) == 1:
            alone.wait()
        return JobResult(outcomes={}, environment={}, in_flight=names[0], failure=failure, completed=None, result_file=Path("/r"))

    monkeypatch.setattr(isolation.child, "run", run)
    parts = [tuple(map(make_workload, names)) for names in (("first", "a", "b", "c"), *((f"{n}x", f"{n}y") for n in range(8)))]
    results = correctness.run_in_parallel(parts, lambda some: SimpleNamespace(workloads=some), is_healthy=lambda: True)
    assert [results[name].missing.code for name in ("first", "a", "b", "c")] == [Code.HANG] * 4


@pytest.mark.parametrize(("workloads", "processes"), [(1, 1), (127, 1), (128, 2), (192, 3), (1000, 12)])
def test_many_workloads_are_spread_over_processes_and_each_runs_once(ran, workloads, processes):
    names = [f"w{number}" for number in range(workloads)]
    results = results_of(names, processes)
    assert sorted(results) == sorted(names)
    assert len(ran) == processes
    assert sorted(name for some in ran for name in some) == sorted(names)
    assert max(map(len, ran)) - min(map(len, ran)) <= correctness.GROUP
    if workloads > 1:
        assert all(
            any({first, second} <= set(some) for some in ran) for first, second in zip(names[::4], names[1::4], strict=False)
        )


def test_large_workloads_are_in_few_processes_which_get_fewer_others():
    workloads = tuple(make_workload(f"w{number}") for number in range(60))
    large = {f"w{number}" for number in range(12)}
    parts = correctness.divide(workloads, large, 6, 3)
    of_part = [len(large & {workload.id for workload in part}) for part in parts]
    assert (sum(of_part), of_part[3:]) == (12, [0, 0, 0])
    assert max(map(len, parts[:3])) < min(map(len, parts[3:]))
    assert sorted(workload.id for part in parts for workload in part) == sorted(workload.id for workload in workloads)


def test_what_ran_out_of_memory_next_to_others_runs_again_after_them(ran):
    names = ["big", *(f"w{number}" for number in range(200))]
    results = results_of(names, 3)
    assert ran[-1] == ["big"]
    assert all(result.missing is None for result in results.values())
    assert [name for name, result in results.items() if result.values.get("notes")] == ["big"]


def test_what_runs_out_of_memory_alone_runs_once(ran):
    results = results_of(["big", "small"])
    assert len(ran) == 1
    assert results["big"].missing.code is Code.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("cpus", "gib", "candidate", "parts"),
    [
        (32, 140, ("c.py",), [["a", "c"], ["b"]]),
        (15, 140, ("c.py",), [["a", "b", "c"]]),
        (32, 15, ("c.py",), [["a", "b", "c"]]),
        (32, 140, (), [["a", "b", "c"]]),
    ],
)
def test_each_candidate_has_a_process_on_a_large_machine(monkeypatch, cpus, gib, candidate, parts):
    workloads = tuple(make_workload(name, subject="odd" if name == "b" else "even") for name in "abc")
    seen = []
    session = SimpleNamespace(
        workloads=lambda kind: workloads,
        entries=lambda workload: (),
        problem=lambda workload: SimpleNamespace(bytes=1.0, flops=1.0, entries=()),
        plan=SimpleNamespace(description=lambda name: SimpleNamespace(candidate=candidate)),
        memory=gib << 30,
        is_healthy=lambda: True,
    )

    def run(given, make_job, *, is_healthy):
        seen.extend([workload.id for workload in part] for part in given)
        return {workload.id: None for workload in workloads}

    monkeypatch.setattr(correctness.host, "cpus", lambda: cpus)
    monkeypatch.setattr(correctness, "run_in_parallel", run)
    monkeypatch.setattr(correctness, "_observe", lambda *_: None)
    correctness.collect(session)
    assert seen == parts


CASES = {"cases/passed": 50, "cases/wrong": 1, "cases/refused": 0}


def test_test_cases_have_counts_instead_of_differences():
    readings = dict(correctness.readings(CASES))
    assert set(readings) == set(CASES)
    assert readings["cases/wrong"] == Measured(value=1.0, unit="count")
    assert dict(correctness.readings({"cases/passed": 50}))["cases/wrong"].code is Code.METRIC_ABSENT
    assert set(dict(correctness.readings(GIVEN))) == set(GIVEN)


def test_packages_of_one_name_have_processes_of_their_own():
    workloads = [make_workload(f"w{i}", params=(("package", "ours" if i < 30 else "peer"),)) for i in range(40)]
    parts = list(correctness.divide_cases(tuple(workloads), 8))
    assert [len({workload.params for workload in part}) for part in parts] == [1] * 8
    assert sorted(workload.id for part in parts for workload in part) == sorted(workload.id for workload in workloads)
    assert list(correctness.divide_cases((), 8)) == []
    assert len(list(correctness.divide_cases(tuple(workloads[:2]), 8))) <= 8
