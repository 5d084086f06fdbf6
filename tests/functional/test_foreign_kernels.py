"""A subject that uses the library which another subject loaded: the real worker, libraries and package, without a GPU.

The package is as ``flashcore`` was: it keeps the library of each operation for all subjects of the process.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from evidence_factories import good_observation, make_evidence
from factories import FINITE, make_check, make_plan
from judging import BUILDS, judged

from flashcore_ci.collect import child
from flashcore_ci.model.suite import Kind
from flashcore_ci.report import junit
from flashcore_ci.worker import guard
from flashcore_ci.worker.job import Job, Result, Subject, Work
from flashcore_ci.worker.subject_file import Subjects

KERNEL = Path(__file__).parents[2] / "kernel"
PACKAGE = """
import ctypes
kept = {}
def load(library):
    kept[library.parent.name] = ctypes.CDLL(str(library))
"""
SUBJECT = """
import sys
sys.path.insert(0, {folder!r})
import keeping_package
def load(library): keeping_package.load(library)
def run(): return keeping_package.kept[{uses!r}].launch()
"""
FALLBACK = """
def run():
    try:
        return keeping_package.kept["decode"].launch()
    except Exception:
        return keeping_package.kept["attention"].launch()
"""
OPENS = """
import ctypes
def run(): return ctypes.CDLL(LIBRARY).launch()
"""
FLASHCORE = """
from flashcore import _library
def load(library): _library.load(library)
def run(): return getattr(_library.get_library({uses!r}), "flashcore_" + {function!r})(None)
"""
FUNCTIONS = {"attention": "attention_forward", "decode": "decode"}
LIBRARY = """
int launch(void) {{ return {result}; }}
int flashcore_{function}(void* arguments) {{ return {result}; }}
int flashcore_abi_version(void) {{ return 2; }}
const char* flashcore_error_string(void) {{ return ""; }}
long flashcore_read(void) {{ return 0; }}
"""
RESULTS = {"attention": 1, "decode": 2}


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A PyTorch with a GPU on which nothing happens."""
    properties = SimpleNamespace(total_memory=10)
    cuda = SimpleNamespace(
        synchronize=lambda: None, memory_reserved=lambda: 1, get_device_properties=lambda _: properties, empty_cache=lambda: None,
        OutOfMemoryError=MemoryError,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # as in the worker, which refuses bytecode
    path, before = sys.path[:], set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        sys.modules.pop(name)


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Run one workload of each subject, in this order, in one process. ``extra`` is the end of attention's file."""
    (tmp_path / "keeping_package.py").write_text(PACKAGE)
    libraries = {}
    for name, result in RESULTS.items():
        libraries[name] = tmp_path / name / f"lib{name}.so"
        libraries[name].parent.mkdir()
        text = LIBRARY.format(result=result, function=FUNCTIONS[name])
        subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", libraries[name]], input=text, text=True, check=True)
    importlib.invalidate_caches()

    def run_subjects(*order: str, uses: str = "attention", extra: str = "", text: str = SUBJECT) -> dict[str, Any]:
        subjects = []
        for name, library in libraries.items():
            file, used = tmp_path / f"{name}.py", uses if name == "attention" else "decode"
            end = f"\nLIBRARY = {str(libraries['decode'])!r}\n{extra}" if name == "attention" else ""
            file.write_text(text.format(folder=str(tmp_path), uses=used, function=FUNCTIONS[used]) + end)
            subjects.append(Subject(name=name, file=file, library=library))
        works = tuple(Work(id=f"{name}-{i}", subject=name, params={}, seed=0) for i, name in enumerate(order))
        declared = ["keeping_package.py", "attention.py", "decode.py"]
        job = Job(
            kind="timing", nonce="n", digest="d", root=tmp_path, folder=tmp_path, subjects=tuple(subjects), workloads=works,
            options={"python": declared},
        )  # fmt: skip
        result, ready = Result(job, tmp_path / "result.json"), Subjects(job)
        assert guard.run_each(job, result, lambda work: {"launched": ready[work.subject].run()}, ready)
        return {name: outcome.get("missing", outcome.get("launched")) for name, outcome in result.content["outcomes"].items()}

    return run_subjects


REFUSED = {"code": "foreign-kernel", "message": "uses libdecode.so, the library of subject decode"}


def test_each_subject_uses_its_own_library_in_any_order(run: Any) -> None:
    order = ("attention", "decode", "attention", "decode", "decode")
    assert list(run(*order).values()) == [RESULTS[name] for name in order]


def test_a_library_that_another_subject_loaded_is_refused(run: Any) -> None:
    assert run("decode", "attention", "decode", uses="decode") == {"decode-0": 2, "attention-1": REFUSED, "decode-2": 2}


def test_flashcore_keeps_libraries_and_gives_no_subject_that_of_another(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(KERNEL))
    assert list(run("decode", "attention", "decode", text=FLASHCORE).values()) == [2, 1, 2]
    assert run("decode", "attention", text=FLASHCORE, uses="decode") == {"decode-0": 2, "attention-1": REFUSED}


@pytest.mark.parametrize("extra", [FALLBACK, OPENS])
def test_a_fallback_and_a_library_opened_by_its_path_are_refused(run: Any, extra: str) -> None:
    assert run("decode", "attention", extra=extra) == {"decode-0": 2, "attention-1": REFUSED}


def test_its_check_fails_with_a_next_step_and_a_test_case(run: Any) -> None:
    missing = child.missing_from({"missing": run("decode", "attention", uses="decode")["attention-1"]})
    plan = make_plan((make_check(FINITE),))
    seen = good_observation(plan, BUILDS[0], Kind.CORRECTNESS, "big", readings=(), missing=missing)
    report = judged(make_evidence(observations=(seen,)), plan=plan)
    (verdict,) = report.verdicts
    assert (verdict.outcome.value, verdict.reason.code.value, verdict.blocks) == ("FAIL", "foreign-kernel", True)
    assert "Use the subject's own" in verdict.next_step
    (case,) = ET.fromstring(junit.render(report)).iter("testcase")
    assert [failure.get("type") for failure in case.iter("failure")] == ["foreign-kernel"]
