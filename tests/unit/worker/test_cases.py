"""Test cases of another project: what counts as passed, wrong and refused."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any, Self

import pytest

from flashcore_ci.model.codes import Code
from flashcore_ci.worker import cases
from flashcore_ci.worker.job import Work

WORK = Work(id="w", subject="s", params={}, seed=18)


class OutOfMemoryError(Exception):
    pass


def fail_with(error: BaseException) -> Any:
    def case() -> None:
        raise error

    return case


def passes() -> None:
    pass


class Subject:
    """Cases are functions."""

    def __init__(self, *given: tuple[str, list[str], Any]) -> None:
        self.given = list(given)

    def cases(self, _params: Any, _seed: int) -> Any:
        return self.given

    def run_case(self, case: Any) -> None:
        case()


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A PyTorch whose profiler sees the kernels in ``seen``."""
    found = SimpleNamespace(seen=["kernel"])

    class Profile:
        def __init__(self, **_options: Any) -> None:
            pass

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_error: object) -> None:
            pass

        @property
        def function_events(self) -> Any:
            return [SimpleNamespace(name=name, device_type="cuda") for name in found.seen]

    fake: Any = SimpleNamespace(
        cuda=SimpleNamespace(synchronize=lambda: None, OutOfMemoryError=OutOfMemoryError),
        autograd=SimpleNamespace(DeviceType=SimpleNamespace(CUDA="cuda"), profiler=SimpleNamespace(profile=Profile)),
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    return found


def measure(*given: tuple[str, list[str], Any], entries: tuple[str, ...] = ("kernel",)) -> dict[str, Any]:
    return cases.measure(Subject(*given), WORK, entries, {"flashcore_decode": "decode"})


def test_results_are_counted_by_feature_and_those_that_did_not_pass_are_named() -> None:
    outcome = measure(
        ("a", ["window", "d 64"], passes),
        ("b", ["window"], fail_with(AssertionError("off by 1"))),
        ("c", ["qv"], fail_with(NotImplementedError("qv: only None"))),
        ("d", ["d 64"], fail_with(TypeError("no such argument"))),
    )
    assert outcome["readings"] == {"cases/passed": 1, "cases/wrong": 2, "cases/refused": 1}
    assert outcome["notes"] == ["passed: d 64 1, window 1", "wrong: d 64 1, window 1", "refused: qv 1"]
    assert outcome["cases"] == [
        "wrong: b: AssertionError: off by 1",
        "wrong: d: TypeError: no such argument",
        "refused: c: NotImplementedError: qv: only None",
    ]


@pytest.mark.parametrize("given", [(), (("a", [], passes), ("a", [], passes))])
def test_no_case_and_a_case_given_twice_are_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="each must have a name of its own"):
        measure(*given)


def test_without_the_tests_there_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subject, "cases", lambda *_: fail_with(FileNotFoundError("names no folder"))())
    assert measure()["missing"] == {"code": Code.NO_TEST_FILES.value, "message": "FileNotFoundError: names no folder"}


def test_a_result_of_other_code_does_not_count(torch: SimpleNamespace) -> None:
    torch.seen = ["cutlass"]
    outcome = measure(("a", [], passes))
    assert outcome["missing"]["code"] == Code.KERNEL_NOT_SEEN.value
    late = measure(("a", [], fail_with(RuntimeError("before a launch"))), ("b", [], passes))
    assert late["missing"]["code"] == Code.KERNEL_NOT_SEEN.value
    torch.seen = ["kernel"]
    late = measure(("a", [], fail_with(RuntimeError("before a launch"))), ("b", [], passes))
    assert late["readings"] == {"cases/passed": 1, "cases/wrong": 1, "cases/refused": 0}
    assert "readings" in measure(("a", [], fail_with(NotImplementedError("a: none"))))  # refused before any launch


def test_no_kernel_of_ours_runs_in_a_peer(torch: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subject, "is_peer", lambda _: True, raising=False)
    assert measure(("a", [], passes))["missing"] == {
        "code": Code.UNEXPECTED_KERNEL.value,
        "message": "kernel ran, but this is a peer",
    }
    torch.seen = ["cutlass"]
    assert measure(("a", [], passes))["readings"]["cases/passed"] == 1


@pytest.mark.parametrize("is_peer", [False, True])
def test_no_kernel_of_another_subject_runs_in_a_case_that_passes(
    torch: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, is_peer: bool
) -> None:
    monkeypatch.setattr(Subject, "is_peer", lambda _: is_peer, raising=False)
    torch.seen = ["kernel", "flashcore_decode"]
    expected = {"code": Code.FOREIGN_KERNEL.value, "message": "flashcore_decode ran, a kernel of subject decode"}
    assert measure(("a", [], passes))["missing"] == expected


def test_too_little_memory_is_no_result() -> None:
    for error in (OutOfMemoryError("x"), RuntimeError("CUDA error: out of memory")):
        with pytest.raises(type(error)):
            measure(("a", [], fail_with(error)))


def test_a_lost_context_ends_the_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "context_error", lambda: "illegal address")
    outcome = measure(("a", [], fail_with(RuntimeError("illegal address"))), ("b", [], passes))
    assert outcome["missing"] == {"code": Code.CRASH.value, "message": "a: illegal address"}


def test_few_cases_are_named() -> None:
    outcome = measure(*((f"case {i}", [], fail_with(AssertionError(""))) for i in range(50)))
    assert outcome["readings"]["cases/wrong"] == 50
    assert len(outcome["cases"]) == cases.MAX_SHOWN
