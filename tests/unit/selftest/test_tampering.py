from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashcore_ci.selftest import tampering
from flashcore_ci.selftest.good_run import GoodRun
from flashcore_ci.selftest.model import Defect

CUT_SHORT = GoodRun(files={}, run=SimpleNamespace(), scratch=Path("/"), plan=SimpleNamespace(), judge_plan=SimpleNamespace)  # type: ignore[arg-type]


def test_a_run_that_ended_before_the_profiler_has_nothing_to_tamper_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tampering.clock, "monotonic", lambda: 0.0)
    defect: Any = Defect(name="half a report", gate="sol-dram", target="t", reason="refused", tampering="truncated-report")
    found = tampering.detect(defect, CUT_SHORT)
    assert (found.reason, found.red) == (tampering.NOTHING_GREEN, False)
