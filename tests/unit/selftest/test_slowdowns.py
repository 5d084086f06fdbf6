from types import SimpleNamespace

import pytest
from factories import make_gate, make_limit, make_suite, make_workload

from flashcore_ci.model.codes import Code
from flashcore_ci.model.suite import Kind, Severity
from flashcore_ci.selftest import slowdowns
from flashcore_ci.selftest.model import Defect

DEFECT = Defect(name="2 % slower", reason=Code.SLOWER, gate="no-slower", target="a", slowdown=2.0)


def noise(*percents: float) -> SimpleNamespace:
    recorded = SimpleNamespace(planted=tuple(SimpleNamespace(percent=percent) for percent in percents))
    return SimpleNamespace(of=lambda target: recorded if target == "a" else None)


def suite(severity=Severity.BLOCKING):
    """Of three workloads that are timed, two are compared."""
    compared, timed = (Kind.TIMING, Kind.COMPARISON), (Kind.TIMING,)
    workloads = tuple(make_workload(name, collect=kinds) for name, kinds in (("a", compared), ("b", compared), ("c", timed)))
    return make_suite(
        workloads=workloads, gates=(make_gate("no-slower", evidence=Kind.COMPARISON, limits=(make_limit(severity=severity),)),)
    )


def test_the_error_is_shared_by_the_rows_that_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, float] = {}
    monkeypatch.setattr(slowdowns, "_slowdown", lambda *_, **said: asked.update(said) or Code.SLOWER)
    assert slowdowns.detect(DEFECT, suite(), [noise(1.0, 2.0)]).is_right
    assert asked["rows"] == 2
    assert not slowdowns.detect(DEFECT, suite(Severity.ADVISORY), [noise(1.0, 2.0)]).is_right


@pytest.mark.parametrize("noises", [[], [noise(1.0)]], ids=["no recording", "another level"])
def test_what_was_never_recorded_was_never_asked(noises: list[SimpleNamespace]) -> None:
    found = slowdowns.detect(DEFECT, suite(), noises)
    assert (found.is_right, found.reason) == (False, "never asked")
