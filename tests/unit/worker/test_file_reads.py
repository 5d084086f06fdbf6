import ctypes
import importlib
import os
import sqlite3
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from flashcore_ci.worker import file_reads, guard
from flashcore_ci.worker.job import Job, Subject
from flashcore_ci.worker.supervisor import Candidate

EXTERNAL = importlib.import_module("importlib._bootstrap_external")
LOCATE = EXTERNAL.cache_from_source


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(file_reads, "_as_data", set())
    monkeypatch.setattr(file_reads, "_by_import", set())
    monkeypatch.setattr(EXTERNAL, "cache_from_source", EXTERNAL.cache_from_source)
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "subject.py").write_text("# slow\nVALUE = 1\n")
    (folder / "table.bin").write_bytes(b"1")
    file_reads.ignore_bytecode(folder)
    file_reads.watch(folder)
    yield folder
    file_reads._watched[:] = [Path("/nowhere")]


def undeclared(root, library=None):
    subjects = (Subject(name="s", file=root / "subject.py", library=library),)
    options = {"python": ["subject.py"]}
    job = Job(kind="timing", nonce="n", digest="d", root=root, folder=root, subjects=subjects, workloads=(), options=options)
    return guard.undeclared_import(job)


def execute(file):
    module = ModuleType("watched_subject")
    SourceFileLoader(module.__name__, str(file)).exec_module(module)
    return module


def test_importing_a_declared_file_is_no_finding(root):
    assert execute(root / "subject.py").VALUE == 1
    assert undeclared(root) == ""


@pytest.mark.parametrize(
    "read",
    [
        lambda file: file.read_bytes(),
        lambda file: file.open("r+").close(),
        lambda file: os.close(os.open(file, os.O_RDONLY)),
        lambda file: os.close(os.open(os.fsencode(file), os.O_RDWR)),
        lambda file: file.open("a+").close(),
        lambda file: sqlite3.connect(file).close(),
        lambda file: sqlite3.connect(f"file:{file}?mode=ro", uri=True).close(),
        lambda file: open(os.path.relpath(file)).close(),  # noqa: PTH123
    ],
)
@pytest.mark.parametrize("name", ["table.bin", "subject.py"])
def test_a_file_read_as_data_is_named(root, read, name):
    read(root / name)
    assert undeclared(root) == name


def test_a_module_that_hides_is_named(root):
    (root / "helper.py").write_text("__file__ = None\n")
    execute(root / "helper.py")
    assert undeclared(root) == "helper.py"


def test_a_library_that_build_did_not_make_is_named(root):
    with pytest.raises(OSError, match="table"):
        ctypes.CDLL(str(root / "table.bin"))
    assert undeclared(root) == "table.bin"
    assert undeclared(root, library=root / "table.bin") == ""


def test_what_the_gate_reads_itself_is_no_finding_and_what_follows_is_one(root):
    with file_reads.unrecorded():
        (root / "subject.py").read_bytes()
    assert undeclared(root) == ""
    (root / "table.bin").read_bytes()
    assert undeclared(root) == "table.bin"


def test_the_copies_for_a_candidate_are_no_finding(root, tmp_path):
    candidate = object.__new__(Candidate)
    candidate._root, candidate._folder = root, tmp_path
    candidate._subject = Subject(name="s", file=root / "definition.py", library=None, candidate=("subject.py", "table.bin"))
    assert [copy.name for copy in candidate._copy_files()] == ["subject.py", "table.bin"]
    assert undeclared(root) == ""


def test_writing_and_files_elsewhere_are_no_finding(root, tmp_path):
    (root / "out.json").write_text("{}")
    (tmp_path / "other").write_text("1")
    (tmp_path / "other").read_text()
    assert undeclared(root) == ""


def test_a_compiled_file_of_the_checkout_is_not_loaded(root, monkeypatch):
    code = compile("VALUE = 2\n", str(root / "subject.py"), "exec")
    data = EXTERNAL._code_to_hash_pyc(code, b"12345678", checked=False)
    ours = EXTERNAL.cache_from_source
    monkeypatch.setattr(EXTERNAL, "cache_from_source", LOCATE)
    cached = Path(LOCATE(str(root / "subject.py")))
    cached.parent.mkdir()
    cached.write_bytes(data)
    assert execute(root / "subject.py").VALUE == 2
    monkeypatch.setattr(EXTERNAL, "cache_from_source", ours)
    assert execute(root / "subject.py").VALUE == 1


def test_bytecode_elsewhere_is_still_used(root):
    assert root.is_dir()
    assert importlib.util.cache_from_source("/elsewhere/a.py").endswith(f"a.{sys.implementation.cache_tag}.pyc")
