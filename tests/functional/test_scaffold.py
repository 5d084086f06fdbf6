"""``init``, ``import`` and the pytest plugin by the real command line, with an answer in place of torch."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import foreign_files
import pytest

ANSWERING = """#!{python}
import json, os, sys
if len(sys.argv) > 4 and json.load(open(sys.argv[3]))["kind"] == "estimate":
    import hashlib
    data = open(sys.argv[3], "rb").read()
    job = json.loads(data)
    work = {{"flops": 12.0, "bytes": 34.0, "outputs": {{"y": [[3, 4], "float16"]}}, "random": "", "init": "[8]"}}
    ids = {{s["name"]: {{"works": {{w["id"]: work for w in job["workloads"] if w["subject"] == s["name"]}}}} for s in job["subjects"]}}
    bound = {{"schema": "result-v1", "kind": "estimate", "nonce": job["nonce"], "job": hashlib.sha256(data).hexdigest()}}
    json.dump({{**bound, "environment": {{}}, "started": None, "finished": True, "outcomes": ids}}, open(sys.argv[4], "w"))
else:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
"""
TEST = """import kernels, refs

def test_good(kernel_gate):
    kernel_gate(kernels.double, refs.double, refs.draw)

def test_lambda(kernel_gate):
    kernel_gate(lambda x: x, refs.double, refs.draw)

def test_list(kernel_gate):
    kernel_gate(kernels.double, refs.double, [1])

def test_other():
    pass
"""


@pytest.fixture
def answering(tmp_path):
    """An interpreter that knows every estimate."""
    file = tmp_path / "python"
    file.write_text(ANSWERING.format(python=sys.executable))
    file.chmod(0o755)
    return {"FLASHCORE_CI_PYTHON": str(file)}


@pytest.fixture
def pair(tmp_path):
    root = tmp_path / "repository"
    root.mkdir()
    (root / "kernel.py").write_text("import torch\n\n\ndef scaled(x, w):\n    return x * w\n")
    (root / "reference.py").write_text("def scaled(x, w):\n    return w * x + 0\n")
    (root / "add.cu").write_text('extern "C" __global__ void add(const float* x, float* y, int n) {}\n')
    (root / "plain.py").write_text("def add(x):\n    return x + x\n")
    return root


def test_definitions_and_models_become_plans(cli, answering, tmp_path, checkout):
    foreign_files.written(tmp_path / "set/a", solved=foreign_files.solution())
    (tmp_path / "set/7_scale.py").write_text(foreign_files.MODEL)
    done = cli("import", tmp_path / "set", **answering)
    assert (done.returncode, done.stdout.count(" checks")) == (0, 2), done.stderr
    text = cli("plan", "--suite", "gates/imported/scaled_h4.toml").stdout
    for part in ("Estimated, for your review", "12 FLOP, 34 byte, outputs y float16[3, 4], tolerance error/ratio at most 1"):
        assert part in text
    again = cli("import", tmp_path / "set", **answering)
    assert again.returncode == 3
    assert "exists, and nothing is overwritten" in again.stdout


def test_one_bad_problem_does_not_stop_the_others(cli, answering, tmp_path):
    foreign_files.written(tmp_path / "set/a")
    foreign_files.written(tmp_path / "set/b", made=foreign_files.definition(name="../b"))
    done = cli("import", tmp_path / "set", **answering)
    assert done.returncode == 3
    assert "1 of 2 became valid plans" in done.stdout
    assert "refused set/b/definition.json: the definition '../b' is not a name" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("import", "absent"), 2, "there is no such file or folder"),
        (("import", "kernel"), 2, "no problem was found"),
        (("import", "kernel", "--folder", "../x"), 2, "not a plain relative path"),
        (("init", "a.py", "b.py"), 2, "not FILE::FUNCTION"),
        (("init", "../a.py::f", "b.py::f"), 2, "is not a file in"),
    ],
)
def test_wrong_arguments_have_one_line_and_a_fix(cli, arguments, code, why):
    done = cli(*arguments)
    assert done.returncode == code
    assert why in done.stderr
    assert "fix:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("sides", "name"), [(("kernel.py::scaled", "reference.py::scaled"), "scaled"), (("add.cu::add", "plain.py::add"), "add")]
)
def test_init_writes_a_plan_once(cli, answering, pair, sides, name):
    done = cli("init", *sides, cwd=pair, **answering)
    assert done.returncode == 0, done.stderr
    assert (pair / ".gitignore").read_text() == "/runs/\n"
    assert (pair / ".github/workflows/kernel-gate.yml").is_file()
    assert cli("plan", "--suite", f"gates/{name}.toml", cwd=pair).returncode == 0
    before = {file: file.read_bytes() for file in pair.rglob("*") if file.is_file()}
    again = cli("init", *sides, cwd=pair, **answering)
    assert (again.returncode, "nothing is overwritten" in again.stderr) == (2, True)
    assert before == {file: file.read_bytes() for file in pair.rglob("*") if file.is_file()}


def test_a_second_kernel_is_not_in_the_workflow_and_init_says_so(cli, answering, pair):
    said = [
        cli("init", *sides, cwd=pair, **answering).stdout
        for sides in (("kernel.py::scaled", "reference.py::scaled"), ("add.cu::add", "plain.py::add"))
    ]
    assert ["add a step that gates gates/add.toml" in text for text in said] == [False, True]


def test_a_changed_reference_is_seen_by_the_plan(cli, answering, pair):
    cli("init", "kernel.py::scaled", "reference.py::scaled", cwd=pair, **answering)
    (pair / "reference.py").write_text("def scaled(x, w):\n    return x\n")
    done = cli("plan", "--suite", "gates/scaled.toml", cwd=pair)
    assert done.returncode == 3
    assert "reference.py changed: review it" in done.stderr


def test_without_torch_init_says_what_to_install(cli, pair):
    done = cli("init", "kernel.py::scaled", "reference.py::scaled", cwd=pair)
    assert (done.returncode, "pip install torch" in done.stderr) == (4, True), done.stderr
    assert not (pair / "gates").exists()


@pytest.fixture
def tests(tmp_path):
    folder = tmp_path / "tested"
    folder.mkdir()
    (folder / "kernels.py").write_text("def double(x):\n    return x + x\n")
    (folder / "refs.py").write_text("def double(x):\n    return 2 * x\n\n\ndef draw(seed):\n    return {'x': seed}\n")
    (folder / "test_k.py").write_text(TEST)
    return folder


PLUGIN = "flashcore_ci.pytest_plugin"


def pytest_in(folder: Path, environment: dict[str, str], *arguments: str, **variables: str) -> str:
    installed = any(
        point.value == PLUGIN for point in entry_points(group="pytest11")
    )  # an older installation has no such entry point
    loaded = () if installed else ("-p", PLUGIN)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *loaded, "-rsf", *arguments]
    kept = {name: value for name, value in environment.items() if name != "CI"}
    return subprocess.run(command, cwd=folder, env={**kept, **variables}, capture_output=True, text=True, check=False).stdout


def test_without_a_gpu_the_plugin_skips_with_a_reason(tests, environment):
    text = pytest_in(tests, environment)
    assert "2 failed, 1 passed, 1 skipped" in text
    assert "this machine has no GPU" in text
    assert "fix: define it with def at the top level of a file" in text
    assert "fix: give a dict of tensors by name" in text


@pytest.mark.nightly
def test_in_ci_the_plugin_fails_in_two_processes(tests, environment):
    text = pytest_in(tests, environment, "-n", "2", CI="1")
    assert "3 failed, 1 passed" in text
    assert "this machine has no GPU" in text


def test_recorded_evidence_is_judged_and_its_absence_fails(tests, environment):
    text = pytest_in(tests, environment, "--kernel-gate=recorded", "-k", "good")
    assert "1 failed" in text
    assert "Nothing was recorded for this check" in text
    (report,) = (tests / "runs/pytest").glob("*/report.json")
    assert json.loads(report.read_text())["outcome"] == "INCONCLUSIVE"


def test_the_plugin_costs_other_runs_less_than_20_ms(environment):
    code = "import time, pytest; t = time.perf_counter(); import flashcore_ci.pytest_plugin; print(time.perf_counter() - t)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(times) < 0.020
