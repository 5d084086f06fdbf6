"""The table of what compute-sanitizer can say is whole, and no sentence in it leaves a log clean."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from flashcore_ci.adapters import sanitizer, sanitizer_log
from flashcore_ci.build import toolchain
from flashcore_ci.model.codes import Code
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured

ROOT = Path(__file__).parents[3]
SUMMARY = {
    check: "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" if check == "racecheck" else "ERROR SUMMARY: 0 errors"
    for check in SANITIZER_TOOLS
}
ZERO = Measured(value=0.0, unit="count")


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools/study"))
    return importlib.import_module("sanitizer_sentences")


def reading_with(line: str, check: str) -> object:
    text = f"========= COMPUTE-SANITIZER\n========= {line}\n========= {SUMMARY[check]}\n"
    return sanitizer.read_findings(sanitizer_log.parse(text, check), returncode=0, version="2026.4.0.0", ran=True)


def test_every_sentence_of_the_pinned_version_has_a_class(study: ModuleType) -> None:
    folder = toolchain._folder(Path.home() / ".cache/flashcore-ci", "13.0") / "nvidia/cu13/compute-sanitizer"
    if not folder.is_dir():
        pytest.skip("the pinned tools are not installed here")
    assert study.sentences(folder) == study.table().keys()


def test_the_classes_are_known(study: ModuleType) -> None:
    classes = study.table()
    assert set(classes.values()) == set(study.CLASSES)
    assert sum(kind == "lost-track" for kind in classes.values()) >= 8


@pytest.mark.parametrize("prefix", ["", "Warning: ", "Error: ", "Internal Sanitizer Error: "])
def test_no_sentence_leaves_a_log_clean(study: ModuleType, prefix: str) -> None:
    for number, sentence in enumerate(study.table()):
        check = SANITIZER_TOOLS[number % len(SANITIZER_TOOLS)]
        assert reading_with(prefix + sentence, check) != ZERO, sentence


@pytest.mark.parametrize(
    "sentence",
    [
        "Warning: Detected overflow of tracked cuda::barrier structures. Results might be incorrect. Try using --num-cuda-barriers to fix the issue",
        "Warning: Error buffer overflow has been detected. Some records have been dropped",
        "Warning: Detected a failure to track a kernel launch. Future records might be incomplete",
        "Warning: Maximum number of hazards reached. Environment variable NV_COMPUTE_SANITIZER_MAX_RACECHECK_HAZARDS can be used to increase this count.",
        "Warning: Not all records were printed (see Racecheck Severity Level section of the documentation)",
        "Warning: CUDA initialized before the Sanitizer. The Sanitizer will be disabled",
        "Warning: GPU debugging features are disabled. Please consult the list of supported CUDA devices for more details.",
        "Warning: CUDA Dynamic Parallelism is not supported by the selected tool",
        "Warning: Confidential compute mode detected. compute-sanitizer will be disabled.",
        "Warning: Detected an unsupported driver version. Please update your CUDA installation to 13.0 or newer (driver version 580 or higher)",
        "ERROR SUMMARY: 3 errors were skipped (error buffer overflow).",
    ],
)
def test_a_tool_that_may_have_missed_errors_lost_track(sentence: str) -> None:
    for check in SANITIZER_TOOLS:
        found = reading_with(sentence, check)
        assert getattr(found, "code", None) is Code.TOOL_LOST_TRACK
