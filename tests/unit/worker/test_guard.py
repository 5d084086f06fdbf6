import sys
from types import ModuleType

import pytest

from flashcore_ci.worker import guard
from flashcore_ci.worker.job import Job


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Which file is undeclared, when these were imported and those are declared."""

    def ask(imported, declared):
        for index, file in enumerate(imported):
            module = ModuleType(f"stranger_{index}")
            module.__file__ = file
            monkeypatch.setitem(sys.modules, module.__name__, module)
        options = {"python": declared}
        return guard.undeclared(
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
