"""The gate on a machine with a GPU: the real command line over recorded tool output, and over what a worker may do wrong."""

from __future__ import annotations

import json

import pytest
from replayed import PROFILE, UNBUILT, Machine, all_are, of, only, valid

# --- All is well ---------------------------------------------------------------------------------------------------------


def test_the_recorded_run_leads_to_the_recorded_verdicts_and_so_does_its_evidence(machine: Machine) -> None:
    done = machine.gate()
    assert machine.verdicts() == machine.recorded
    assert done.returncode == 10
    valid(machine.folder / "run")
    again = machine.judge("run", "again")
    assert again.returncode == 10, again.stderr
    assert machine.verdicts("again") == machine.recorded
    valid(machine.folder / "again")


def test_the_report_says_where_each_number_is_from(machine: Machine) -> None:
    machine.gate(*only(*PROFILE, "spills"))
    report = json.loads((machine.folder / "run/report.json").read_text())
    details = {v["gate"]: (v["origin"]["kind"], v["origin"]["detail"]) for v in report["verdicts"]}
    device = machine.content["device"]
    assert details["sol-sm"][0] == details["spills"][0] == "live"
    assert details["sol-sm"][1].startswith(f"{device['name']}, driver {device['driver']}, ")
    assert details["spills"][1].startswith("nvcc ")
    assert report["provenance"]["device"] == device


def test_the_fakes_refuse_what_nobody_recorded(machine: Machine) -> None:
    together = machine.together("profile")
    together["argv"] = [part for part in together["argv"] if part != "--nvtx"]
    machine.gate(*only(*PROFILE))
    assert "--nvtx" in machine.unknown
    assert all_are(machine.verdicts(), "INCONCLUSIVE", "tool-failed")
    (machine.recording / "unknown").unlink()


# --- The worker ----------------------------------------------------------------------------------------------------------


def test_a_worker_that_a_signal_kills_fails_its_workload_and_hides_no_other(machine: Machine) -> None:
    victim = "flaky-n100003"
    (together,) = [process for process in machine.shared("correctness") if victim in process["workloads"]]
    before = together["workloads"][: together["workloads"].index(victim)]
    outcomes = {name: together["result"]["outcomes"][name] for name in before}
    killed = {**together["result"], "outcomes": outcomes, "started": victim, "finished": False}
    machine.content["processes"].insert(0, {**together, "result": killed, "exit_status": -11})
    machine.gate(*only("finite"))
    expected = of(machine.recorded, "finite")
    assert machine.verdicts() == {**expected, ("finite", victim): ("FAIL", "crash")}


@pytest.mark.parametrize("fault", ["old", "another job", "half a result"])
def test_a_result_that_is_no_answer_to_the_job_counts_for_nothing(machine: Machine, fault: str) -> None:
    for together in machine.shared("correctness"):
        together |= {"fault": fault, "exit_status": 0, "timed_out": False, "result": {**together["result"], "finished": True}}
    done = machine.gate(*only("finite"))
    built = {check: verdict for check, verdict in machine.verdicts().items() if check[1] not in UNBUILT}
    assert all_are(built, "INCONCLUSIVE", "invalid-result")
    assert done.returncode == 11


def test_a_process_that_is_lost_leaves_too_few_samples(machine: Machine) -> None:
    machine.together("timing-2")["fault"] = "another job"
    machine.gate(*only("stability"))
    assert all_are(machine.verdicts(), "INCONCLUSIVE", "too-few-processes")


@pytest.mark.parametrize("value", ["nan", "inf", None])
def test_a_sample_that_is_no_number_is_no_sample(machine: Machine, value: str | None) -> None:
    machine.together("timing-2")["result"]["outcomes"]["sound-n33554432"]["megacycles"] = value
    machine.gate(*only("stability"))
    sound = ("stability", "sound-n33554432")
    assert machine.verdicts() == {**of(machine.recorded, "stability"), sound: ("INCONCLUSIVE", "too-few-processes")}


def test_a_result_that_is_no_json_is_no_result(machine: Machine) -> None:
    machine.together("timing-2")["result"]["outcomes"]["sound-n33554432"]["megacycles"] = float("nan")
    machine.gate(*only("stability"))
    assert set(machine.verdicts().values()) == {("INCONCLUSIVE", "too-few-processes")}


def test_a_difference_that_is_nan_is_no_pass(machine: Machine) -> None:
    for process in machine.processes("correctness"):
        for outcome in process["result"]["outcomes"].values():
            outcome.get("readings", {}).update({"diff/max": "nan", "finite/bad-values": "nan"})
    machine.gate(*only("max-diff", "finite"))
    good = [check for check, (outcome, _) in of(machine.recorded, "max-diff", "finite").items() if outcome == "PASS"]
    assert good
    assert {machine.verdicts()[check] for check in good} == {("FAIL", "not-finite")}
