"""Subjects that would be green if the worker trusted them, each asked by the real worker on a real GPU."""

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
HELPED = """
import helper
"""
REPLAYS = """
kept = {}
def run(inputs, outputs):
    key = inputs["x"].data_ptr()
    if key not in kept: kept[key] = inputs["x"] * 2.0
    outputs["out"].copy_(kept[key])
"""
NOW_AND_THEN = """
calls = 0
def run(inputs, outputs):
    global calls
    calls += 1
    torch.mul(inputs["x"], 2.0 if calls % 5 else 3.0, out=outputs["out"])
"""


def asked(folder: Path, kind: str, text: str, *, entries: tuple[str, ...] = (), files: tuple[str, ...] = ("subject.py",)):
    """The outcome of one workload, by a worker of its own."""
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


def test_a_sound_subject_is_measured(tmp_path):
    readings = asked(tmp_path, "correctness", "")["readings"]
    assert readings == {"finite/bad-values": 0, "repeat/differing-runs": 0, "diff/max": 0, "error/ratio": 0}
    outcome = asked(tmp_path, "timing", "")
    assert outcome.get("missing", {}).get("code") in {None, "unsettled"}
    assert outcome["megacycles"] > 0


def test_work_on_another_stream_is_not_waited_for(tmp_path):
    assert asked(tmp_path, "correctness", OTHER_STREAM)["readings"]["finite/bad-values"] == 1 << 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SPOILS_ITS_INPUT, "input x changed"),
        (EXCHANGES_ITS_OUTPUT, "does not support item assignment"),
        (NOTHING_TO_COMPARE, "no finite number"),
        (HELPED, "imports helper.py"),
    ],
)
def test_what_would_be_green_for_nothing_is_refused(tmp_path, text, said):
    missing = asked(tmp_path, "correctness", text)["missing"]
    assert missing["code"] == "raised"
    assert said in missing["message"]


def test_a_file_that_the_subject_names_may_be_imported(tmp_path):
    assert "readings" in asked(tmp_path, "correctness", HELPED, files=("subject.py", "helper.py"))


def test_a_fallback_is_not_taken_for_the_kernel(tmp_path):
    missing = asked(tmp_path, "correctness", "", entries=("scale_f32",))["missing"]
    assert missing == {"code": "kernel-not-seen", "message": "scale_f32 never ran"}


@pytest.mark.parametrize(("text", "said"), [(REPLAYS, "other values"), (NOW_AND_THEN, "a timed launch gave another output")])
def test_what_is_timed_is_the_computation(tmp_path, text, said):
    missing = asked(tmp_path, "timing", text)["missing"]
    assert missing["code"] == "output-changed"
    assert said in missing["message"]
