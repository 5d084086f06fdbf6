import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from factories import make_workload

from flashcore_ci.adapters.process import Completed
from flashcore_ci.collect import child
from flashcore_ci.collect.child import JobSpec
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Missing

RESULT = {
    "schema": "result-v1",
    "kind": "correctness",
    "nonce": "n",
    "job": "j",
    "environment": {},
    "started": None,
    "finished": True,
    "outcomes": {"big": {"readings": {}}},
}
DUE = {"kind": "correctness", "nonce": "n", "job": "j", "began": 1000.0}


def write(folder, content, *, at=1001.0):
    path = folder / "result.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    os.utime(path, (at, at))
    return path


def code(found):
    assert isinstance(found, Missing)
    return found.code


SOUND = {"seconds": 1, "ms": "nan", "reasons": {"0x4": 60}, "notes": [], "batched": False, "more": None}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (None, 5),
        (None, None),
        ("readings", 5),
        ("readings", None),
        ("notes", "n"),
        ("seconds", "long"),
        ("seconds", "nan"),
        ("seconds", None),
        ("kept", [1]),
        ("ms", "fast"),
        ("megacycles", {}),
        ("std_percent", "none"),
        ("reasons", ["0x4"]),
        ("reasons", {"power": 1}),
        ("batched", "yes"),
        ("graph_launches", True),
        ("graph_launches", 0),
        ("graph_launches", 1001),
    ],
)
def test_a_malformed_outcome_is_invalid(tmp_path, name, value):
    assert child.read_result(write(tmp_path, {**RESULT, "outcomes": {"big": SOUND}}), **DUE)["outcomes"] == {"big": SOUND}
    strange = value if name is None else {**SOUND, name: value}
    found = child.read_result(write(tmp_path, {**RESULT, "outcomes": {"big": strange, "small": SOUND}}), **DUE)
    assert code(child.missing_from(found["outcomes"]["big"])) is Code.INVALID_RESULT
    assert found["outcomes"]["small"] == SOUND


def make_spec(folder=Path("/scratch"), **changes):
    values = {
        "kind": "correctness",
        "name": "correctness",
        "python": Path("/python"),
        "root": Path("/checkout"),
        "scratch": folder,
        "seconds": 60.0,
        "subjects": (),
        "workloads": (make_workload("big"),),
    }
    return JobSpec(**{**values, **changes})


@pytest.fixture
def ended(tmp_path):
    """Make a worker that ended in this way and printed this."""

    def make(*, returncode=0, timed_out=False, out="", err=""):
        (tmp_path / "out").write_text(out, encoding="utf-8")
        (tmp_path / "err").write_text(err, encoding="utf-8")
        return Completed(
            argv=("python",),
            returncode=returncode,
            timed_out=timed_out,
            seconds=1.0,
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
        )

    return make


def test_the_result_of_this_job_is_read(tmp_path):
    assert child.read_result(write(tmp_path, RESULT), **DUE) == RESULT


def test_a_result_older_than_the_start_is_refused(tmp_path):
    found = child.read_result(write(tmp_path, RESULT, at=999.0), **DUE)
    assert code(found) is Code.INVALID_RESULT
    assert "older" in found.message


@pytest.mark.parametrize(
    "content",
    [
        {**RESULT, "nonce": "other"},
        {**RESULT, "job": "other"},
        {**RESULT, "kind": "timing"},
        {**RESULT, "schema": "result-v0"},
        {**RESULT, "outcomes": []},
        {**RESULT, "finished": "yes"},
        {key: value for key, value in RESULT.items() if key != "started"},
        [RESULT],
        "",
        '{"schema": "result-v1", "kind"',
    ],
)
def test_a_foreign_or_incomplete_result_is_refused(tmp_path, content):
    assert code(child.read_result(write(tmp_path, content), **DUE)) is Code.INVALID_RESULT


def test_no_result_is_refused(tmp_path):
    assert code(child.read_result(tmp_path / "result.json", **DUE)) is Code.INVALID_RESULT


def judged(completed, content=RESULT, **changes):
    return child.interpret(make_spec(**changes), completed, content, Path("/result"))


def test_a_whole_result_of_a_clean_exit_counts(ended):
    whole = judged(ended())
    assert whole.failure is None
    assert whole.outcomes == RESULT["outcomes"]


def test_a_result_counts_for_nothing_when_its_writer_was_killed_afterwards(ended):
    late = judged(ended(returncode=-11))
    assert code(late.failure) is Code.CRASH
    assert "SIGSEGV" in late.failure.message
    assert late.outcomes == {}


def test_a_result_counts_for_nothing_after_an_exit_status_that_is_not_permitted(ended):
    assert code(judged(ended(returncode=1)).failure) is Code.CRASH
    assert judged(ended(returncode=86), permitted=frozenset({0, 86})).failure is None


def test_under_a_tool_a_bad_exit_after_the_work_is_a_failure_of_the_tool(ended):
    assert code(judged(ended(returncode=1), wrap=lambda command: command).failure) is Code.TOOL_FAILED


def test_what_was_in_flight_is_known_after_a_crash(ended):
    content = {**RESULT, "finished": False, "started": "small"}
    early = judged(ended(returncode=-6, err="x\nRuntimeError: gone\n  frame 3\n"), content)
    assert (code(early.failure), early.in_flight) == (Code.CRASH, "small")
    assert early.outcomes == RESULT["outcomes"]


def test_an_exit_of_zero_without_the_end_of_the_job_is_a_crash(ended):
    early = judged(ended(), {**RESULT, "finished": False, "started": "small"})
    assert code(early.failure) is Code.CRASH


def test_time_that_ran_out_is_a_hang(ended):
    early = judged(ended(returncode=-15, timed_out=True), {**RESULT, "finished": False, "started": "small"})
    assert code(early.failure) is Code.HANG


@pytest.mark.parametrize("end", [{"returncode": -15, "timed_out": True}, {"returncode": -15}, {"returncode": 1}])
@pytest.mark.parametrize("finished", [True, False])
def test_a_worker_that_ends_badly_while_the_run_is_stopped_was_interrupted(ended, monkeypatch, end, finished):
    monkeypatch.setattr(child.process, "stopping", lambda: True)
    assert code(judged(ended(**end), {**RESULT, "finished": finished}).failure) is Code.INTERRUPTED
    assert judged(ended(), RESULT).failure is None


NO_RESULT = Missing(code=Code.INVALID_RESULT, message="the worker left no result")


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ({"returncode": 1, "err": "ModuleNotFoundError: No module named 'torch'"}, Code.TOOL_FAILED),
        ({"returncode": -15, "timed_out": True}, Code.TOOL_FAILED),
        ({"returncode": 0}, Code.INVALID_RESULT),
    ],
)
def test_before_any_workload_began_none_has_failed(ended, end, expected):
    assert code(judged(ended(**end), NO_RESULT).failure) is expected


@pytest.mark.parametrize("end", [{"returncode": -9}, {"returncode": 1}, {"returncode": -15, "timed_out": True}])
def test_a_worker_that_only_wrote_its_first_result_blames_no_workload(ended, end):
    early = judged(ended(**end), {**RESULT, "finished": False, "outcomes": {}})
    assert code(early.failure) is Code.TOOL_FAILED


def test_a_worker_is_quoted_by_its_exception_and_not_by_the_last_frame(ended):
    err = "Traceback\nModuleNotFoundError: No module named 'torch'\n  frame #25: _start\n==PROF== Report: x\n"
    assert "No module named 'torch'" in judged(ended(returncode=1, err=err), NO_RESULT).failure.message
    out = "==PROF== Connected\nit broke\n==ERROR== The application returned an error code (6).\n"
    assert judged(ended(returncode=6, out=out), NO_RESULT).failure.message.endswith("it broke")


@pytest.mark.parametrize("reason", [{"code": "no-such-code", "message": ""}, {"message": "m"}, "raised", 3])
def test_an_unknown_reason_is_an_invalid_result(reason):
    assert code(child.missing_from({"missing": reason})) is Code.INVALID_RESULT


def test_reasons_of_the_worker():
    assert child.missing_from({"readings": {}}) is None
    assert child.missing_from({"missing": {"code": "hang", "message": "m"}}) == Missing(code=Code.HANG, message="m")


@pytest.fixture
def answered(monkeypatch, ended):
    """Script a worker that writes its result at time ``at``, and return what it was given. ``walls`` are wall clock readings."""

    def answers(*, at, walls):
        seen, walls = {}, iter(walls)

        def run(argv, *, variables, timeout, should_stop, **_):
            job = Path(argv[-2]).read_bytes()
            seen.update(argv=argv, variables=variables, timeout=timeout, should_stop=should_stop, job=json.loads(job))
            answer = {**RESULT, "nonce": seen["job"]["nonce"], "job": hashlib.sha256(job).hexdigest()}
            Path(argv[-1]).write_text(json.dumps(answer), encoding="utf-8")
            os.utime(argv[-1], (at, at))
            return ended()

        monkeypatch.setattr(child.process, "run", run)
        monkeypatch.setattr(child.clock, "wall", lambda: next(walls))
        monkeypatch.setattr(child.clock, "monotonic", iter([50.0, 52.0]).__next__)
        return seen

    return answers


@pytest.mark.parametrize(
    ("at", "walls", "code"),
    [
        (1001.0, (1000.0, 1002.0), None),
        (701.0, (1000.0, 702.0), None),  # set back by 300 s meanwhile
        (4601.0, (1000.0, 4602.0), None),  # set forward by an hour
        (699.0, (1000.0, 702.0), Code.INVALID_RESULT),
        (701.0, (1000.0, 1002.0), Code.INVALID_RESULT),
    ],
)
def test_a_clock_that_is_set_does_not_make_a_result_old(tmp_path, answered, at, walls, code):
    answered(at=at, walls=walls)
    result = child.run(make_spec(tmp_path))
    assert (result.failure and result.failure.code) == code


def test_a_worker_gets_its_job_and_answers_it(tmp_path, answered):
    seen = answered(at=1001.0, walls=(1000.0, 1002.0))
    spec = make_spec(tmp_path, options={"repeats": 3}, variables={"A": "b"}, wrap=lambda command: ("tool", *command))
    assert child.run(spec).failure is None
    assert seen["argv"][:4] == ("tool", "/python", "-m", "flashcore_ci.worker")
    assert seen["timeout"] == 60.0
    assert seen["variables"]["A"] == "b"
    assert [entry.name for entry in Path(seen["variables"]["PYTHONPATH"]).iterdir()] == ["flashcore_ci"]
    assert seen["job"]["workloads"] == [{"id": "big", "subject": "scale", "params": {"n": 1024}, "seed": 0}]
    assert seen["job"]["options"] == {"repeats": 3}
    assert not seen["should_stop"]()


def test_a_worker_ends_early_where_its_job_says_so(tmp_path, answered):
    seen = answered(at=1001.0, walls=(1000.0, 1002.0))
    child.run(replace(make_spec(tmp_path), should_stop=lambda: True))
    assert seen["should_stop"]()
