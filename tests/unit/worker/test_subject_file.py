import importlib.util
import py_compile
from importlib import _bootstrap_external
from pathlib import Path

import pytest

from flashcore_ci.worker import describe
from flashcore_ci.worker.file_reads import ignore_bytecode
from flashcore_ci.worker.job import Job, Result, Subject, Work
from flashcore_ci.worker.subject_file import Subjects, last_line, load

GOOD = """
loaded = []
def build(root): return {"library": "lib.so", "root": str(root)}
def problem(params): return {"flops": 1.0, "bytes": 2.0, "entries": [f"k{params['n']}"]}
def load(library): loaded.append(library)
"""


def make_job(folder: Path, text: str, library: Path | None = None, params=({"n": 1},)):
    file = folder / "subject.py"
    file.write_text(text, encoding="utf-8")
    return Job(
        kind="describe",
        nonce="n",
        digest="d",
        root=folder,
        folder=folder,
        subjects=(Subject(name="my subject", file=file, library=library),),
        workloads=tuple(Work(id=f"w{i}", subject="my subject", params=p, seed=0) for i, p in enumerate(params)),
        options={},
    )


def described(folder, text, **changes):
    job = make_job(folder, text, **changes)
    result = Result(job, folder / "result.json")
    assert describe.run(job, result)
    return result.content["outcomes"]["my subject"]


def test_a_subject_is_imported_by_path(tmp_path):
    job = make_job(tmp_path, GOOD)
    assert load(job.subjects[0]).problem({"n": 4})["entries"] == ["k4"]


def test_a_file_that_is_not_python_is_refused(tmp_path):
    with pytest.raises(ImportError):
        load(Subject(name="s", file=tmp_path / "subject.txt", library=None))


def test_the_library_is_loaded_once(tmp_path):
    subjects = Subjects(make_job(tmp_path, GOOD, library=Path("/lib.so")))
    assert subjects["my subject"] is subjects["my subject"]
    assert subjects["my subject"].loaded == [Path("/lib.so")]


def test_a_subject_without_a_library_is_told_so(tmp_path):
    assert Subjects(make_job(tmp_path, GOOD))["my subject"].loaded == [None]


def test_a_subject_without_a_library_may_have_nothing_to_load(tmp_path):
    assert Subjects(make_job(tmp_path, GOOD.partition("def load")[0]))["my subject"].loaded == []


def test_a_description(tmp_path):
    outcome = described(tmp_path, GOOD, params=({"n": 1}, {"n": 2}))
    assert outcome["description"]["build"] == {"library": "lib.so", "root": str(tmp_path)}
    assert outcome["description"]["problems"] == [
        {"workload": "w0", "flops": 1.0, "bytes": 2.0, "entries": ["k1"]},
        {"workload": "w1", "flops": 1.0, "bytes": 2.0, "entries": ["k2"]},
    ]


def test_each_mistake_is_reported_once_with_its_first_workload(tmp_path):
    outcome = described(tmp_path, GOOD, params=({"n": 1}, {"m": 2}, {}, None))
    refused = "TypeError: 'NoneType' object is not subscriptable"
    assert outcome == {"problems": ["workload w1 and 1 more: KeyError: 'n'", f"workload w3: {refused}"]}


def test_a_file_that_raises_is_named_with_its_line(tmp_path):
    assert described(tmp_path, "\n\nraise RuntimeError('no')\n") == {"problems": ["subject.py:3: RuntimeError: no"]}


def test_a_build_that_raises_is_named_with_its_line(tmp_path):
    text = "def build(root):\n    raise ValueError('tile_m: 63')\n"
    assert described(tmp_path, text) == {"problems": ["subject.py:2: ValueError: tile_m: 63"]}


def test_a_file_that_lacks_a_function(tmp_path):
    (problem,) = described(tmp_path, "x = 1\n")["problems"]
    assert "build" in problem


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("a\nb"), "ValueError: a"),
        (KeyError(), "KeyError"),
        (RuntimeError("x" * 400), f"RuntimeError: {'x' * 400}"[:300]),
    ],
)
def test_last_line(error, line):
    assert last_line(error) == line


@pytest.mark.parametrize("ignored", [False, True])
def test_forged_bytecode_next_to_a_subject_does_not_run(tmp_path, monkeypatch, ignored):
    monkeypatch.setattr(_bootstrap_external, "cache_from_source", _bootstrap_external.cache_from_source)
    job = make_job(tmp_path, GOOD)
    (tmp_path / "forged.py").write_text(f"{GOOD}\nFORGED = True")
    cache = importlib.util.cache_from_source(str(job.subjects[0].file))
    py_compile.compile(str(tmp_path / "forged.py"), cfile=cache, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    if ignored:
        ignore_bytecode(tmp_path)
    assert hasattr(load(job.subjects[0]), "FORGED") is not ignored
