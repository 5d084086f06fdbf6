"""The command line as people and CI use it, on a machine without a GPU."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from replayed import alive, valid

from flashcore_ci.run.host import has_gpu
from flashcore_ci.suite.settings import Settings


def reports(out: Path) -> tuple[ET.Element, dict]:
    """junit.xml and report.json, both valid; summary.md is there."""
    valid(out)
    assert (out / "summary.md").read_text(encoding="utf-8").startswith("# ")
    return ET.parse(out / "junit.xml").getroot(), json.loads((out / "report.json").read_text(encoding="utf-8"))


def outcomes(report: dict) -> dict[tuple[str, str], tuple[str, str]]:
    return {(v["gate"], v["target"]): (v["outcome"], v["reason"]["code"]) for v in report["verdicts"]}


def gate(cli, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return cli("gate", "--suite", "suite.toml", "--recorded", *arguments, **variables)


# --- Errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["gate", "--no-such-option"], ["gait"], ["gate", "--stale", "maybe"], ["judge"]])
def test_usage_is_2(cli, arguments: list[str]) -> None:
    assert cli(*arguments).returncode == 2


def test_a_bad_suite_is_3_and_names_every_problem(cli, checkout: Path) -> None:
    text = (checkout / "suite.toml").read_text(encoding="utf-8")
    (checkout / "suite.toml").write_text(
        text.replace("repeats", "repeets").replace('unit = "abs"', 'unit = "ms"'), encoding="utf-8"
    )
    done = gate(cli)
    assert done.returncode == 3
    assert done.stdout == ""
    assert "repeets" in done.stderr
    assert "did you mean" in done.stderr
    assert done.stderr.count("suite.toml") >= 2
    assert "Traceback" not in done.stderr
    root, report = reports(checkout / "runs/latest")
    assert (root.get("tests"), root.get("errors")) == ("1", "1")
    assert (report["exit_code"], report["outcome"]) == (3, "INCONCLUSIVE")


def test_a_suite_that_is_not_there_is_3(cli, checkout: Path) -> None:
    done = cli("gate", "--suite", "suit.toml", "--recorded")
    assert done.returncode == 3
    assert "did you mean" in done.stderr
    reports(checkout / "runs/latest")


def test_nothing_selected_is_3(cli, checkout: Path) -> None:
    assert gate(cli, "--only", "no-such-gate*").returncode == 3
    assert reports(checkout / "runs/latest")[0].get("errors") == "1"


def test_advisory_checks_alone_are_3(cli, checkout: Path) -> None:
    text = (checkout / "suite.toml").read_text()
    advisory = 'unit = "abs", severity = "advisory", why = "new"'
    (checkout / "suite.toml").write_text(text.replace('unit = "abs"', advisory))
    assert gate(cli, "--only", "max-diff", "--stale", "defer").returncode == 3
    assert gate(cli, "--only", "max-diff", "--only", "build").returncode == 0


@pytest.mark.skipif(has_gpu(), reason="this machine has a GPU")
@pytest.mark.parametrize("arguments", [["collect", "--suite", "suite.toml"], ["gate", "--suite", "suite.toml", "--live"]])
def test_measuring_without_a_gpu_is_4(cli, arguments: list[str]) -> None:
    done = cli(*arguments)
    assert done.returncode == 4
    assert "no NVIDIA GPU" in done.stderr
    assert "fix: " in done.stderr


@pytest.mark.skipif(has_gpu(), reason="this machine has a GPU")
def test_a_doctor_on_a_machine_without_a_gpu(cli) -> None:
    done = cli("doctor")
    assert done.returncode == 4
    assert re.search(r"^problem  gpu +no NVIDIA GPU$", done.stdout, re.MULTILINE)
    assert re.search(r"^ok +g\+\+ ", done.stdout, re.MULTILINE)
    assert re.search(r"^ok +git +/", done.stdout, re.MULTILINE)
    assert re.search(r"^problem +git +not installed\n +fix: install git$", cli("doctor", PATH="/nowhere").stdout, re.MULTILINE)


@pytest.mark.skipif(has_gpu(), reason="this machine has a GPU")
def test_a_runner_is_checked_item_by_item(cli, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    (tmp_path / "runner").mkdir()
    (tmp_path / "runner/.runner").write_text('{"ephemeral": true}')
    named = {"TMPDIR": str(tmp_path / "temporary"), "RUNNER_TEMP": str(tmp_path / "runner/_work/_temp"), "GH_TOKEN": "hunter2"}
    done = cli("doctor", "--runner", **named)
    assert done.returncode == 4
    assert re.search(r"^verified +ephemeral +the runner takes one job", done.stdout, re.MULTILINE)
    assert re.search(r"^failed +secrets .*GH_TOKEN", done.stdout, re.MULTILINE)
    assert re.search(r"^cannot be seen from here +one-gpu +no GPU$", done.stdout, re.MULTILINE)
    assert re.search(r"^runner: \d+ verified, \d+ failed, \d+ cannot be seen from here", done.stdout, re.MULTILINE)
    assert "hunter2" not in done.stdout


# --- The gate ----------------------------------------------------------------------------------------------------------


def test_without_evidence_static_gates_pass_and_the_rest_is_inconclusive(cli, checkout: Path) -> None:
    done = gate(cli)
    assert done.returncode == 11, done.stderr
    root, report = reports(checkout / "runs/latest")
    assert outcomes(report) == {
        ("build", "twice"): ("PASS", "within-limit"),
        ("spills", "twice"): ("PASS", "within-limit"),
        ("max-diff", "twice-n4096"): ("INCONCLUSIVE", "no-evidence"),
    }
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "0", "1")
    assert {v["origin"]["kind"] for v in report["verdicts"] if v["outcome"] == "PASS"} == {"live"}
    assert " INCONCLUSIVE " in done.stdout.splitlines()[0]
    assert "\x1b" not in done.stdout + done.stderr


def test_what_a_gpu_job_will_answer_can_be_deferred(cli, checkout: Path) -> None:
    done = gate(cli, "--stale", "defer")
    assert done.returncode == 0
    root, _ = reports(checkout / "runs/latest")
    assert [skipped.get("message").split(":")[0] for skipped in root.iter("skipped")] == ["deferred"]
    assert "DEFERRED" in done.stdout


def test_only_narrows(cli, checkout: Path) -> None:
    done = gate(cli, "--only", "spills")
    assert done.returncode == 0
    assert "only a part of the suite was judged: --only spills" in done.stdout
    assert set(outcomes(reports(checkout / "runs/latest")[1])) == {("spills", "twice")}


def test_json_goes_to_standard_output_alone(cli, checkout: Path) -> None:
    done = gate(cli, "--json")
    assert json.loads(done.stdout) == json.loads((checkout / "runs/latest/report.json").read_text())


def test_a_compile_error_fails_and_shows_file_and_line(cli, checkout: Path) -> None:
    source = checkout / "kernel/twice.cu"
    source.write_text(source.read_text().replace("2.0f", "two"))
    done = gate(cli)
    assert done.returncode == 10, done.stderr
    _, report = reports(checkout / "runs/latest")
    assert outcomes(report)["build", "twice"] == ("FAIL", "compile-error")
    assert outcomes(report)["max-diff", "twice-n4096"][0] == "INCONCLUSIVE"
    assert "kernel/twice.cu:6" in done.stdout


def test_binaries_built_before_are_judged_without_a_compiler(cli, checkout: Path) -> None:
    assert cli("build", "--suite", "suite.toml", "--out", "build").returncode == 0
    done = gate(cli, "--build", "build", FLASHCORE_CI_HOME=str(checkout / "nowhere"))
    assert done.returncode == 11, done.stderr
    library = checkout / "build/twice/libtwice.so"
    library.write_bytes(library.read_bytes() + b"\0")
    done = gate(cli, "--build", "build")
    assert done.returncode == 4
    assert "libtwice.so" in done.stderr
    assert reports(checkout / "runs/latest")[1]["exit_code"] == 4


def test_broken_evidence_is_an_error_and_no_pass(cli, checkout: Path) -> None:
    (checkout / "gates/evidence").mkdir(parents=True)
    (checkout / "gates/evidence/h200.tar.xz").write_bytes(b"not a bundle")
    done = gate(cli, "--stale", "defer")
    assert done.returncode == 4
    root, report = reports(checkout / "runs/latest")
    assert int(root.get("errors")) >= 1
    assert report["outcome"] == "INCONCLUSIVE"


def test_an_old_green_report_does_not_survive_a_later_error(cli, checkout: Path) -> None:
    assert gate(cli, "--only", "spills").returncode == 0
    (checkout / "suite.toml").write_text("nonsense = [", encoding="utf-8")
    assert gate(cli).returncode == 3
    assert reports(checkout / "runs/latest")[0].get("errors") == "1"


def interrupted(checkout: Path, environment: dict[str, str], marker: Path, signals: list[signal.Signals]) -> tuple[int, str]:
    """Start the gate, send the signals once ``marker`` holds the process id of a child; exit code and errors."""
    argv = [sys.executable, "-m", "flashcore_ci.cli.main", "gate", "--suite", "suite.toml", "--recorded"]
    tool = subprocess.Popen(argv, cwd=checkout, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (marker.exists() and marker.read_text().strip()):
        time.sleep(0.02)
        assert tool.poll() is None
    for number in signals:
        tool.send_signal(number)
        time.sleep(0.1)
    _, errors = tool.communicate(timeout=600)
    assert not alive(int(marker.read_text()))
    return tool.returncode, errors


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT], [signal.SIGTERM, signal.SIGTERM]])
def test_a_signal_before_there_is_a_plan(checkout: Path, environment: dict[str, str], signals: list[signal.Signals]) -> None:
    marker = checkout / "pid"
    with (checkout / "subject.py").open("a") as file:
        file.write(f"\nimport os, pathlib, time\npathlib.Path({str(marker)!r}).write_text(str(os.getpid()))\ntime.sleep(60)\n")
    code, errors = interrupted(checkout, environment, marker, signals)
    assert code == 11, errors
    root, report = reports(checkout / "runs/latest")
    assert root.get("errors") == "1"
    assert (report["outcome"], report["exit_code"]) == ("INCONCLUSIVE", 11)


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_a_signal_while_compiling(checkout: Path, environment: dict[str, str], signals: list[signal.Signals]) -> None:
    marker, fakes = checkout / "pid", checkout / "fakes"
    fakes.mkdir()
    (fakes / "g++").write_text(f"#!/bin/sh\necho $$ > {marker}\nexec sleep 60\n")
    (fakes / "g++").chmod(0o755)
    fresh = {"FLASHCORE_CI_HOME": str(checkout / "home"), "PATH": f"{fakes}:{environment['PATH']}"}
    (checkout / "home").mkdir()
    (checkout / "home/toolchains").symlink_to(Settings.from_environment(environment).home / "toolchains")
    code, errors = interrupted(checkout, {**environment, **fresh}, marker, signals)
    assert code == 11, errors
    _, report = reports(checkout / "runs/latest")
    assert set(outcomes(report).values()) == {("INCONCLUSIVE", "interrupted")}
    assert len(report["verdicts"]) == 3


# --- The other commands ------------------------------------------------------------------------------------------------


def test_plan_lists_every_check(cli) -> None:
    done = cli("plan", "--suite", "suite.toml")
    assert done.returncode == 0
    assert "3 checks of 3 gates" in done.stdout
    assert "twice-n4096  diff/max below 1e-6" in done.stdout
    plan = json.loads(cli("plan", "--suite", "suite.toml", "--json").stdout)
    assert len(plan["checks"]) == 3


def test_explain(cli) -> None:
    done = cli("explain", "--suite", "suite.toml", "max-diff")
    assert done.returncode == 0
    assert "so that nobody merges a wrong kernel" in done.stdout
    done = cli("explain", "--suite", "suite.toml", "max-dif")
    assert done.returncode == 2
    assert "did you mean max-diff?" in done.stderr
    assert "barrier" in cli("explain", "--suite", "no-such-suite.toml", "hang").stdout  # a reason code needs no suite


def test_a_reader_that_leaves_is_no_bug(checkout: Path, environment: dict[str, str]) -> None:
    command = f"{sys.executable} -m flashcore_ci.cli.main plan --suite suite.toml --json | head -c 1"
    done = subprocess.run(command, shell=True, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "{"
    assert "bug" not in done.stderr
    assert "Exception ignored" not in done.stderr
