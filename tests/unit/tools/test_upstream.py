"""The sample of FlashAttention-3's tests: which cases are drawn, and how results are counted. No torch, no GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tools.bench import upstream


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("mha_type", ["mha", "gqa"])
@pytest.mark.parametrize(("causal", "local"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("seqlen_q,seqlen_k", [(1, 128), (64, 300), (200, 100)])  # noqa: PT006 - as upstream writes it
@pytest.mark.parametrize("page_size", [None, 128])
@pytest.mark.parametrize("new_kv", [False, True])
@pytest.mark.parametrize("rotary_fraction", [0.0, 0.5])
def upstream_case(**parameters: Any) -> None:
    if parameters["d"] == 64:
        raise NotImplementedError("d: not\nserved")
    if parameters["seqlen_q"] == 1:
        pytest.skip("one query")
    assert parameters["causal"], "wrong"


TESTS = SimpleNamespace(**dict.fromkeys(upstream.FUNCTIONS, upstream_case))


def test_a_sample_is_seeded_and_has_no_case_twice_or_left_out() -> None:
    cases = upstream.draw_cases(TESTS, 60, 3)
    assert cases == upstream.draw_cases(TESTS, 60, 3)
    assert cases != upstream.draw_cases(TESTS, 60, 4)
    for function in upstream.FUNCTIONS:
        mine = [parameters for name, parameters in cases if name == function]
        assert len({str(sorted(parameters.items(), key=str)) for parameters in mine}) == len(mine) == 20
    assert all(upstream.can_run(parameters) and not parameters["local"] for _, parameters in cases)
    assert {parameters["page_size"] for _, parameters in cases if parameters["seqlen_k"] != 128} == {None}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream.time, "monotonic", lambda: 0.0)


def test_results_are_counted_by_feature(capsys: pytest.CaptureFixture[str]) -> None:
    cases = upstream.draw_cases(TESTS, 60, 3)
    counts = upstream.count(TESTS, cases, 60.0)
    assert sum(number for (feature, _), number in counts.items() if feature == "all") == len(cases)
    assert set(dict.fromkeys(result for _, result in counts)) == {"passed", "skipped", "refused", "failed"}
    assert counts["d 64", "refused"] == counts["all", "refused"] > 0
    assert counts["causal", "failed"] == 0 < counts["causal", "passed"] == counts["all", "passed"]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == counts["all", "refused"] + counts["all", "failed"]
    assert any(line.startswith("refused ") and line.endswith(": d: not served") for line in lines)
    assert any(line.startswith("failed ") and "AssertionError: wrong" in line for line in lines)


def test_no_case_runs_after_its_time() -> None:
    assert upstream.count(TESTS, upstream.draw_cases(TESTS, 30, 1), -1.0) == {}
