import gc
import sys
import weakref
from types import ModuleType, SimpleNamespace

import pytest

from flashcore_ci.model.codes import Code
from flashcore_ci.worker import guard
from flashcore_ci.worker.job import Job, Result, Work


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Which file is undeclared, when these were imported and those are declared."""

    def ask(imported, declared):
        for index, file in enumerate(imported):
            module = ModuleType(f"stranger_{index}")
            module.__file__ = file
            monkeypatch.setitem(sys.modules, module.__name__, module)
        options = {"python": declared}
        return guard.undeclared_import(
            Job(kind="correctness", nonce="n", digest="d", root=tmp_path, subjects=(), workloads=(), options=options)
        )

    return ask


def test_what_the_subject_names_may_be_imported(asked, tmp_path):
    assert asked([str(tmp_path / "subject.py")], ["subject.py"]) == ""


def test_a_helper_that_nobody_names_is_found(asked, tmp_path):
    assert asked([str(tmp_path / "subject.py"), str(tmp_path / "kernel/helper.py")], ["subject.py"]) == "kernel/helper.py"


def test_a_link_is_what_it_leads_to(asked, tmp_path):
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "subject.py").symlink_to(tmp_path / "helper.py")
    assert asked([str(tmp_path / "subject.py")], ["subject.py"]) == ""


@pytest.mark.parametrize("file", ["/elsewhere/torch.py", "_classes.py", None, guard.__file__, f"{sys.prefix}/lib/torch.py"])
def test_what_is_not_the_checkouts_does_not_count(asked, file):
    assert asked([file], []) == ""


def test_where_digests_bind_nothing_everything_may_be_imported(asked, tmp_path):
    assert asked([str(tmp_path / "helper.py")], None) == ""


def test_a_workload_leaves_nothing_to_the_next_and_what_imports_left_is_looked_through_once(tmp_path, monkeypatch):
    cuda = SimpleNamespace(
        synchronize=lambda: None,
        memory_reserved=lambda: 1,
        get_device_properties=lambda _: SimpleNamespace(total_memory=10),
        empty_cache=lambda: None,
        OutOfMemoryError=MemoryError,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: 0.0))
    left = []

    class Node:
        pass

    def action(work):
        assert not any(reference() for reference in left)
        node = Node()
        node.itself = node
        left.append(weakref.ref(node))
        return {}

    works = tuple(Work(id=name, subject="s", params={}, seed=0) for name in "abc")
    job = Job(kind="launch", nonce="n", digest="d", root=tmp_path, subjects=(), workloads=works, options={})
    gc.disable()
    try:
        assert guard.run_each(job, Result(job, tmp_path / "result.json"), action)
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
def test_memory_that_others_than_the_allocator_miss_is_missed_memory_too(monkeypatch, raised, code):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(OutOfMemoryError=MemoryError)))

    def action(_work):
        raise raised

    assert guard.attempt(None, action)["missing"]["code"] == code.value
