"""The subjects of gates/fp8.toml: what they build, launch and refuse. No GPU, no torch."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flashcore_ci.suite.loader import load
from flashcore_ci.worker import file_reads

ROOT = Path(__file__).parents[3]
PARAMS = {"h": 4, "sq": 64, "sk": 300, "input": "normal"}


def subject(file: str, name: str = "accuracy") -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"subject_{name.replace('-', '_')}", ROOT / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.SUBJECT = name
    return module


ACCURACY_FILE, PLANTED_FILE = "kernel/subjects/e4m3_accuracy.py", "kernel/defects/e4m3_accuracy.py"
ACCURACY = subject(ACCURACY_FILE)


def test_it_is_the_library_of_e4m3() -> None:
    build, original = ACCURACY.build(ROOT), subject("kernel/subjects/e4m3.py").build(ROOT)
    assert {**build, "binding": []} == {**original, "binding": []}
    assert set(build["binding"]) - set(original["binding"]) == {
        f"kernel/subjects/{name}.py" for name in ("e4m3", "hostile", "needles")
    }
    assert all((ROOT / file).is_file() for file in build["binding"])


def test_a_planted_kernel_has_other_entry_functions(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "kernel", tmp_path / "kernel", ignore=shutil.ignore_patterns("__pycache__"))
    planted = subject(PLANTED_FILE, "accuracy-one-level")
    build, problem = planted.build(tmp_path), planted.problem({**PARAMS, "defect": "one-level"})
    assert {entry["symbol"] for entry in build["entries"]} == set(problem["entries"])
    assert problem["entries"] == ["mutant_e4m3_one_level_helper", "mutant_e4m3_one_level"]
    assert set(ACCURACY.build(ROOT)["binding"]) < set(build["binding"])
    assert "kernel/defects/mutant.py" in build["binding"]


@pytest.mark.parametrize(("file", "name"), [(ACCURACY_FILE, "accuracy"), (PLANTED_FILE, "accuracy-one-level")])
def test_it_reads_no_data_while_it_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, name: str) -> None:
    """The worker refuses a subject that does, as no digest covers what it reads."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))  # bytecode of another test would count as data
    for seen in ("_as_data", "_by_import"):
        monkeypatch.setattr(file_reads, seen, set())
    monkeypatch.setattr(file_reads, "_watched", [])
    file_reads.watch(ROOT)
    module = subject(file, name)
    assert module.problem(PARAMS)
    with file_reads.unrecorded():
        declared = {file_reads.resolved(str(ROOT / path)) for path in [file, *module.build(ROOT)["binding"]]}
        assert not file_reads.undeclared(declared, set())


def test_work_is_that_of_e4m3() -> None:
    assert ACCURACY.problem(PARAMS)["entries"] == ["flashcore_e4m3_transpose_values", "flashcore_e4m3_fwd_d128_full"]
    assert ACCURACY.problem(PARAMS)["flops"] == 4 * 128 * 4 * 64 * 300


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": "normal"}, "inputs: unknown parameter"),
        ({"sk": 0}, "sk: must be a whole number above zero, is 0"),
        ({"sq": 1.5}, "sq: must be a whole number above zero, is 1.5"),
        ({"input": "nothing"}, "input: must be one of normal, outlier, ones, equal, rise, peak, needles, is 'nothing'"),
        ({"against": "bf16"}, "against: must be one of rounded, original, is 'bf16'"),
        ({"hkv": 3}, "hkv: must divide h = 4, is 3"),
        ({"input": "needles", "hkv": 2}, "needles: need b = 1 and as many KV heads as heads"),
    ],
)
def test_bad_parameters_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ACCURACY.problem({**PARAMS, **changes})


def test_the_suite_has_what_the_needle_gate_needs() -> None:
    """The count of needles and depths, and an instrument that searches for the same needles."""
    suite = load(ROOT / "gates/fp8.toml", root=ROOT)
    found, planted = (next(w for w in suite.workloads if tag in w.tags) for tag in ("needles", "planted"))
    params = dict(found.params)
    assert (params["h"] * params["sq"], params["sk"]) == (4096, 131_072)
    assert dict(planted.params) == {**params, "planted": True}
    assert (found.seed, found.subject, planted.subject) == (planted.seed, "accuracy", "accuracy-one-level")
    assert (ACCURACY.needles.DEPTHS, ACCURACY.needles.WORDS, ACCURACY.needles.MUST_LOSE) == (16, 1024, 0.05)


def test_the_planted_kernel_of_the_suite_is_the_mutant_with_one_level() -> None:
    table = tomllib.loads((ROOT / "kernel/defects/mutants.toml").read_text(encoding="utf-8"))
    (edits,) = (mutant["edits"] for mutant in table["mutant"] if mutant["name"] == "e4m3-one-level")
    assert [edit[2] for edit in edits] == [
        "__uint_as_float(__float_as_uint(fmaf(sum, output_factor_[row_of(i)], products[i])) & 0xFFFF0000u)"
    ]
