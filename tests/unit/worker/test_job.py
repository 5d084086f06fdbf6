import importlib.util
import json
import math

import pytest

from flashcore_ci.model.codes import Code
from flashcore_ci.worker.__main__ import JOBS
from flashcore_ci.worker.job import Job, Result, json_number, missing

JOB = {
    "schema": "job-v1",
    "kind": "correctness",
    "nonce": "n",
    "root": "/checkout",
    "subjects": [{"name": "s", "file": "/s.py", "library": None}, {"name": "t", "file": "/t.py", "library": "/t.so"}],
    "workloads": [{"id": "w", "subject": "s", "params": {"n": 1}, "seed": 3}],
    "options": {"repeats": 2},
}


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.json"
    path.write_text(json.dumps(JOB), encoding="utf-8")
    return Job.read(path)


def test_a_job_is_read(job):
    assert job.kind == "correctness"
    assert job.workloads[0].params == {"n": 1}
    assert [subject.library and str(subject.library) for subject in job.subjects] == [None, "/t.so"]


def test_another_version_is_refused(tmp_path):
    path = tmp_path / "job.json"
    path.write_text(json.dumps({**JOB, "schema": "job-v0"}), encoding="utf-8")
    with pytest.raises(ValueError, match="job-v1"):
        Job.read(path)


def test_the_result_on_disk_names_what_is_in_flight(job, tmp_path):
    path = tmp_path / "result.json"
    result = Result(job, path)

    def on_disk():
        return json.loads(path.read_text(encoding="utf-8"))

    result.write()
    assert (on_disk()["nonce"], on_disk()["job"], on_disk()["finished"]) == ("n", job.digest, False)
    result.start("w")
    assert on_disk()["started"] == "w"
    result.finish("w", {"readings": {}})
    assert (on_disk()["started"], on_disk()["outcomes"]) == (None, {"w": {"readings": {}}})
    result.done()
    assert on_disk()["finished"] is True
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_not_a_number_is_a_text_and_does_not_end_the_worker(job, tmp_path):
    path = tmp_path / "result.json"
    Result(job, path).finish("w", {"mhz": math.nan, "blocks": [[0.5, math.inf]], "kept": 3})
    assert json.loads(path.read_text())["outcomes"]["w"] == {"mhz": "nan", "blocks": [[0.5, "inf"]], "kept": 3}


@pytest.mark.parametrize(("value", "carried"), [(1, 1.0), (0.5, 0.5), (math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_numbers_survive_json(value, carried):
    assert json_number(value) == carried
    assert float(json_number(value)) == value or math.isnan(value)


def test_missing():
    assert missing(Code.RAISED, "why") == {"missing": {"code": "raised", "message": "why"}}


@pytest.mark.parametrize("module", JOBS.values(), ids=JOBS)
def test_every_kind_of_job_has_a_module(module):
    assert importlib.util.find_spec(f"flashcore_ci.worker.{module}") is not None
