from pathlib import Path

import pytest

from flashcore_ci.adapters import process
from flashcore_ci.build.compiler import diagnose_failure
from flashcore_ci.model.errors import CannotCollectError, InterruptedRunError
from flashcore_ci.model.evidence import CompileError

NAMED = CompileError(file="kernel/a.cuh", line=3, message="no")


def ended(returncode=0, *, timed_out=False):
    return process.Completed(
        argv=("nvcc",), returncode=returncode, timed_out=timed_out, seconds=1.0, stdout=Path("o"), stderr=Path("e")
    )


def test_success_is_no_failure_whatever_was_printed():
    assert diagnose_failure(ended(), "error: said a comment", NAMED, "a.cu") is None


def test_the_compilers_own_error():
    assert diagnose_failure(ended(2), "", NAMED, "a.cu") == NAMED


def test_an_error_without_a_file_is_the_sources():
    nameless = CompileError(file="", line=0, message="no")
    assert diagnose_failure(ended(255), "", nameless, "a.cu") == CompileError(file="a.cu", line=0, message="no")


def test_an_unknown_message_is_still_a_failure():
    assert diagnose_failure(ended(2), "one\ntwo\n\n", None, "a.cu") == CompileError(file="a.cu", line=0, message="two")
    silent = diagnose_failure(ended(-11), "", None, "a.cu")
    assert silent == CompileError(file="a.cu", line=0, message="the compiler ended with SIGSEGV")


def test_a_compiler_that_does_not_finish():
    assert "did not finish" in diagnose_failure(ended(-15, timed_out=True), "", None, "a.cu").message


@pytest.mark.parametrize(
    ("done", "output", "message"),
    [
        (ended(-9), "", "killed"),
        (ended(1), "nvcc error   : 'cicc' died due to signal 9 (Kill signal)", "killed"),
        (ended(1), "g++: fatal error: Killed signal terminated program cc1plus", "killed"),
        (ended(1), "a.cu(3): fatal error: write: No space left on device", "disk is full"),
    ],
)
def test_the_machines_fault_is_no_evidence(done, output, message):
    with pytest.raises(CannotCollectError, match=message):
        diagnose_failure(done, output, NAMED, "a.cu")


def test_a_child_that_we_ended_was_interrupted(monkeypatch):
    monkeypatch.setattr(process, "stopping", lambda: True)
    with pytest.raises(InterruptedRunError):
        diagnose_failure(ended(-15), "", NAMED, "a.cu")
