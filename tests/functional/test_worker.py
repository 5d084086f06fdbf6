"""The worker as a real child, asked by the real parent; no GPU and no torch are needed for what is asked here."""

import json
import sys
import time
from pathlib import Path

import pytest
from factories import make_suite, make_workload

from flashcore_ci.collect import child
from flashcore_ci.collect.child import JobSpec, StartSignal
from flashcore_ci.collect.describe import describe
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import CannotCollectError, SuiteError
from flashcore_ci.model.suite import SubjectRef

SUBJECT = """
def build(root): return None
def problem(params): return {"flops": 1.0 * params["n"], "bytes": 1.0, "entries": []}
"""

# An interpreter that behaves as the order's option "do" says, whatever module it is told to run.
FAKE = f"""#!{sys.executable}
import hashlib, json, os, pathlib, signal, sys, time
job, result = map(pathlib.Path, sys.argv[-2:])
data = job.read_bytes()
content = json.loads(data)
do, go = content["options"]["do"], content["options"].get("go")
def write(**changes):
    answer = {{"schema": "result-v1", "kind": content["kind"], "nonce": content["nonce"], "job": hashlib.sha256(data).hexdigest(),
              "environment": {{}}, "started": None, "finished": False, "outcomes": {{}}, **changes}}
    result.write_text(json.dumps(answer))
while go and not os.path.exists(go): time.sleep(0.01)
if do == "good": write(finished=True, outcomes={{"big": {{"readings": {{}}}}}})
if do == "crash": write(started="big"); os.kill(os.getpid(), signal.SIGKILL)
if do == "hang": write(started="big"); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)
if do == "other": write(finished=True, nonce="another")
if do == "silent": pass
if do == "stale": write(finished=True); os.utime(result, (1, 1))
if do == "torchless": sys.exit("ModuleNotFoundError: No module named 'torch'")
"""


@pytest.fixture
def order(tmp_path):
    """An order to the interpreter above."""
    python = tmp_path / "python"
    python.write_text(FAKE, encoding="utf-8")
    python.chmod(0o755)

    def make(do, *, seconds=300.0):
        return JobSpec(
            kind="correctness",
            name="correctness",
            python=python,
            root=tmp_path,
            scratch=tmp_path / "scratch",
            seconds=seconds,
            subjects=(),
            workloads=(make_workload("big"),),
            options={"do": do},
        )

    return make


def ask(folder, text, *, python=Path(sys.executable)):
    (folder / "scale.py").write_text(text, encoding="utf-8")
    suite = make_suite(subjects=(SubjectRef(name="scale", file="scale.py"),))
    return describe(suite, root=folder, python=python, scratch=folder / "scratch")


def test_a_subject_describes_itself(tmp_path):
    (description,) = ask(tmp_path, SUBJECT)
    assert {problem.workload: problem.flops for problem in description.problems} == {"big": 1024.0, "small": 7.0}
    assert description.build is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def build(root):\n    raise ValueError('no tile')\n", r"scale.py:2: ValueError: no tile"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", r"SIGSEGV"),
        ("import os\nos._exit(0)\n", r"ended the process"),
        ("raise SystemExit(0)\n", r"ended the process"),
    ],
)
def test_whatever_a_subject_does_is_an_error_that_names_it(tmp_path, text, said):
    with pytest.raises(SuiteError, match=said):
        ask(tmp_path, text)


def test_an_interpreter_that_is_not_there(tmp_path):
    with pytest.raises(CannotCollectError):
        ask(tmp_path, SUBJECT, python=tmp_path / "no-such-python")


def test_a_good_answer(order):
    ended = child.run(order("good"))
    assert ended.failure is None
    assert ended.outcomes == {"big": {"readings": {}}}


@pytest.mark.parametrize(
    ("do", "code", "in_flight"),
    [
        ("crash", Code.CRASH, "big"),
        ("hang", Code.HANG, "big"),
        ("other", Code.INVALID_RESULT, None),
        ("silent", Code.INVALID_RESULT, None),
        ("stale", Code.INVALID_RESULT, None),
        ("torchless", Code.TOOL_FAILED, None),
    ],
)
def test_every_bad_end_has_its_code(order, do, code, in_flight):
    for seconds in (0.7, 10.0, 60.0) if do == "hang" else (300.0,):
        ended = child.run(order(do, seconds=seconds))
        if ended.in_flight == in_flight:  # else a busy machine had not started it
            break
    assert (ended.failure.code, ended.in_flight, ended.outcomes) == (code, in_flight, {})


def test_how_a_child_was_started_and_ended_is_kept(order, tmp_path):
    child.run(order("crash"))
    (kept,) = tmp_path.glob("scratch/*-correctness/ended.json")
    how = json.loads(kept.read_text())
    assert (how["exit_status"], how["timed_out"], how["argv"][1:3]) == (-9, False, ["-m", "flashcore_ci.worker"])


def test_a_child_waits_for_its_word_and_its_time_counts_from_there(order, tmp_path):
    import threading

    start, ends = StartSignal(tmp_path / "go"), []
    thread = threading.Thread(target=lambda: ends.append(child.run(order("good", seconds=0.2), start)))
    thread.start()
    time.sleep(1.0)
    assert ends == []
    start.send(300.0)
    thread.join(300)
    assert ends[0].failure is None


def test_a_child_that_is_not_needed_any_more_ends(order, tmp_path):
    import threading

    start, ends = StartSignal(tmp_path / "go"), []
    thread = threading.Thread(target=lambda: ends.append(child.run(order("good"), start)))
    thread.start()
    start.cancel()
    thread.join(300)
    assert ends[0].failure.code is Code.INTERRUPTED


def test_the_worker_sees_this_package_and_nothing_else_of_ours(tmp_path):
    text = "import json, sys\n" + SUBJECT.replace(
        "return None", "raise ValueError(json.dumps([p for p in sys.path if 'scratch' in p]))"
    )
    with pytest.raises(SuiteError) as caught:
        ask(tmp_path, text)
    (folder,) = json.loads(caught.value.problems[0].split("ValueError: ", 1)[1])
    assert [entry.name for entry in Path(folder).iterdir()] == ["flashcore_ci"]


def test_threads_that_start_at_once_share_the_folder(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    from flashcore_ci.collect.child import import_folder

    with ThreadPoolExecutor(16) as pool:
        for number in range(50):
            assert len(set(pool.map(import_folder, [tmp_path / str(number)] * 16))) == 1
