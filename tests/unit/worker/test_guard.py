import gc
import sys
import weakref
from types import ModuleType, SimpleNamespace

import pytest

from flashcore_ci.model.codes import Code
from flashcore_ci.worker import guard
from flashcore_ci.worker.job import Job, Result, Subject, Work
from flashcore_ci.worker.subject_file import Subjects


@pytest.fixture
def make_job(tmp_path):
    """Make a job of workloads a, b and c."""
    works = tuple(Work(id=name, subject="s", params={}, seed=0) for name in "abc")
    fields = {"kind": "launch", "nonce": "n", "digest": "d", "root": tmp_path, "folder": tmp_path, "workloads": works}
    return lambda **options: Job(**fields, subjects=(Subject(name="s", file=tmp_path, library=None),), options=options)


@pytest.fixture
def torch(monkeypatch):
    """A PyTorch with a GPU on which nothing happens."""
    properties = SimpleNamespace(total_memory=10)
    cuda = SimpleNamespace(
        synchronize=lambda: None,
        memory_reserved=lambda: 1,
        get_device_properties=lambda _: properties,
        empty_cache=lambda: None,
        OutOfMemoryError=MemoryError,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: 0.0))


@pytest.fixture
def undeclared(tmp_path, monkeypatch):
    """Return which imported file is undeclared."""

    def find(imported, declared):
        for index, file in enumerate(imported):
            module = ModuleType(f"stranger_{index}")
            module.__file__ = file
            monkeypatch.setitem(sys.modules, module.__name__, module)
        options = {"python": declared}
        return guard.undeclared_import(
            Job(
                kind="correctness",
                nonce="n",
                digest="d",
                root=tmp_path,
                folder=tmp_path,
                subjects=(),
                workloads=(),
                options=options,
            )
        )

    return find


def test_declared_files_may_be_imported(undeclared, tmp_path):
    assert undeclared([str(tmp_path / "subject.py")], ["subject.py"]) == ""


def test_an_undeclared_helper_is_found(undeclared, tmp_path):
    assert undeclared([str(tmp_path / "subject.py"), str(tmp_path / "kernel/helper.py")], ["subject.py"]) == "kernel/helper.py"


def test_a_link_counts_as_its_target(undeclared, tmp_path):
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "subject.py").symlink_to(tmp_path / "helper.py")
    assert undeclared([str(tmp_path / "subject.py")], ["subject.py"]) == ""


@pytest.mark.parametrize("file", ["/elsewhere/torch.py", "_classes.py", None, guard.__file__, f"{sys.prefix}/lib/torch.py"])
def test_files_outside_the_checkout_do_not_count(undeclared, file):
    assert undeclared([file], []) == ""


def test_without_digests_everything_may_be_imported(undeclared, tmp_path):
    assert undeclared([str(tmp_path / "helper.py")], None) == ""


def test_each_file_is_looked_at_once_and_a_late_import_is_found(tmp_path, monkeypatch, torch, make_job):
    asked, job = [], make_job(python=[])
    monkeypatch.setattr(guard.foreign_files, "find", lambda _, files: asked.append(len(files)) or "")

    def action(work):
        if work.id == "b":
            module = ModuleType("stranger_late")
            module.__file__ = str(tmp_path / "kernel/helper.py")
            monkeypatch.setitem(sys.modules, module.__name__, module)
        return {}

    result = Result(job, tmp_path / "result.json")
    guard.run_each(job, result, action, Subjects(job))
    found = {name: "missing" in outcome for name, outcome in result.content["outcomes"].items()}
    assert found == {"a": False, "b": True, "c": True}
    assert asked[0] > 100
    assert sum(asked[1:]) == 0


def test_a_workload_leaves_nothing_behind_and_imports_are_collected_once(tmp_path, torch, make_job):
    left = []

    class Node:
        pass

    def action(work):
        assert not any(reference() for reference in left)
        node = Node()
        node.itself = node
        left.append(weakref.ref(node))
        return {}

    job = make_job()
    gc.disable()
    try:
        assert guard.run_each(job, Result(job, tmp_path / "result.json"), action, Subjects(job))
        assert gc.get_freeze_count() > len(gc.get_objects())
    finally:
        gc.unfreeze()
        gc.enable()
    assert not any(reference() for reference in left)
    assert len(left) == 3


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), Code.OUT_OF_MEMORY),
        (RuntimeError("CUDA error: out of memory"), Code.OUT_OF_MEMORY),
        (RuntimeError("launch: out of memory"), Code.OUT_OF_MEMORY),
        (RuntimeError("launch: invalid argument"), Code.RAISED),
    ],
)
def test_other_allocators_run_out_of_memory_too(monkeypatch, raised, code):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(OutOfMemoryError=MemoryError)))

    def action(_work):
        raise raised

    assert guard.attempt(None, action)["missing"]["code"] == code.value


@pytest.mark.parametrize(("cores", "own", "threads"), [(8, 32, 8), (8, 4, 4), (0, 32, 1), (None, 32, 32)])
def test_a_worker_uses_its_share_of_the_cores(make_job, monkeypatch, cores, own, threads):
    """Two timing processes with a thread for each core waited 15 ms for each mask: 1 s of every 11."""
    used = [own]
    gpu = SimpleNamespace(name="GPU", multi_processor_count=1, L2_cache_size=1)
    fake = SimpleNamespace(
        cuda=SimpleNamespace(get_device_properties=lambda _: gpu),
        __version__="2",
        get_num_threads=lambda: used[-1],
        set_num_threads=used.append,
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    job = make_job(**({} if cores is None else {"cores": cores}))
    guard.begin(job, SimpleNamespace(environment=lambda **_: None))
    assert used[-1] == threads
