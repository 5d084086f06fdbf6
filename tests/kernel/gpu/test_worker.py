"""Subjects that would pass if the worker trusted them, run by the real worker on a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from factories import make_workload

from flashcore_ci.collect import child
from flashcore_ci.collect.child import JobSpec

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

SUBJECT = """
import torch
def inputs(params, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return {"x": torch.randn(1 << 20, device="cuda", generator=generator)}
def outputs(inputs): return {"out": torch.empty_like(inputs["x"])}
def run(inputs, outputs): torch.mul(inputs["x"], 2.0, out=outputs["out"])
def reference(inputs): return {"out": inputs["x"] * 2.0}
"""
OTHER_STREAM = """
def run(inputs, outputs):
    with torch.cuda.stream(torch.cuda.default_stream()):
        torch.mul(inputs["x"], 2.0, out=outputs["out"])
"""
SPOILS_ITS_INPUT = """
def run(inputs, outputs):
    inputs["x"].zero_()
    outputs["out"].zero_()
"""
EXCHANGES_ITS_OUTPUT = """
def run(inputs, outputs): outputs["out"] = inputs["x"] * 2.0
"""
NOTHING_TO_COMPARE = """
def outputs(inputs): return {}
def run(inputs, outputs): pass
def reference(inputs): return {}
"""
IMPORTS_HELPER = """
import helper
"""
REPLAYS = """
kept = {}
def run(inputs, outputs):
    key = inputs["x"].data_ptr()
    if key not in kept: kept[key] = inputs["x"] * 2.0
    outputs["out"].copy_(kept[key])
"""
EVERY_FIFTH_WRONG = """
calls = 0
def run(inputs, outputs):
    global calls
    calls += 1
    torch.mul(inputs["x"], 2.0 if calls % 5 else 3.0, out=outputs["out"])
"""


def run_workload(folder: Path, kind: str, text: str, *, entries: tuple[str, ...] = (), files: tuple[str, ...] = ("subject.py",)):
    """Run one workload in a separate worker."""
    (folder / "helper.py").write_text("", encoding="utf-8")
    (folder / "subject.py").write_text(f"import sys; sys.path.insert(0, {str(folder)!r})\n{SUBJECT}{text}", encoding="utf-8")
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    order = JobSpec(
        kind=kind,
        name=kind,
        python=Path(sys.executable),
        root=folder,
        scratch=folder / "scratch",
        seconds=60.0,
        subjects=({"name": "scale", "file": str(folder / "subject.py"), "library": None},),
        workloads=(make_workload("big"),),
        options={"repeats": 3, "entries": {"big": entries}, "python": list(files), "uuid": uuid, "order": 0},
    )
    ended = child.run(order)
    assert ended.failure is None, ended.failure
    return ended.outcomes["big"]


def test_a_correct_subject_is_measured(tmp_path):
    readings = run_workload(tmp_path, "correctness", "")["readings"]
    assert set(readings) > {"error/rms", "error/rms-ratio"}
    assert set(readings.values()) == {0}
    outcome = run_workload(tmp_path, "timing", "")
    assert outcome.get("missing", {}).get("code") in {None, "unsettled"}
    assert outcome["megacycles"] > 0


def test_work_on_another_stream_is_missing(tmp_path):
    """Next to other processes one of the two launches that are held may still be in time. Then the other one differs."""
    readings = run_workload(tmp_path, "correctness", OTHER_STREAM)["readings"]
    assert readings["finite/bad-values"] == 1 << 20 or readings["repeat/differing-runs"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SPOILS_ITS_INPUT, "input x changed"),
        (EXCHANGES_ITS_OUTPUT, "does not support item assignment"),
        (NOTHING_TO_COMPARE, "outputs() gives no tensor"),
        (IMPORTS_HELPER, "reads helper.py"),
    ],
)
def test_subjects_without_a_valid_result_are_refused(tmp_path, text, message):
    missing = run_workload(tmp_path, "correctness", text)["missing"]
    assert missing["code"] == "raised"
    assert message in missing["message"]


def test_a_declared_file_may_be_imported(tmp_path):
    assert "readings" in run_workload(tmp_path, "correctness", IMPORTS_HELPER, files=("subject.py", "helper.py"))


def test_a_fallback_does_not_count_as_the_kernel(tmp_path):
    missing = run_workload(tmp_path, "correctness", "", entries=("scale_f32",))["missing"]
    assert missing == {"code": "kernel-not-seen", "message": "scale_f32 never ran"}


@pytest.mark.parametrize(
    ("text", "message"), [(REPLAYS, "other values"), (EVERY_FIFTH_WRONG, "a timed launch gave another output")]
)
def test_timed_launches_must_compute(tmp_path, text, message):
    missing = run_workload(tmp_path, "timing", text)["missing"]
    assert missing["code"] == "output-changed"
    assert message in missing["message"]
