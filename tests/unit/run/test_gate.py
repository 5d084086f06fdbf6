"""What the pipeline decides without a machine."""

from dataclasses import replace
from pathlib import Path

import pytest
from tool_files import PLAN, RUN

from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.run import gate, reports
from flashcore_ci.run.request import Request


@pytest.mark.parametrize(
    ("live", "gpu", "policy"),
    [(True, False, "block"), (None, True, "block"), (None, False, "defer"), (False, True, "defer"), (False, False, "defer")],
)
def test_where_the_gpu_is_nothing_is_deferred(monkeypatch, live, gpu, policy):
    monkeypatch.setattr(gate.host, "has_gpu", lambda: gpu)
    request = Request(suite=Path("s.toml"), out=Path("out"), environ={}, live=live, stale="defer")
    assert gate.without_deferral(request).stale == policy


def test_recorded_evidence_is_compared_with_the_tools_files():
    alone = replace(RUN, files={})
    (checked,) = gate._rederived([alone], PLAN)
    missing = {reading.code for observation in checked.evidence.observations for _, reading in observation.readings}
    assert missing == {Code.NO_TOOL_FILE}


def test_an_error_of_the_comparison_with_the_commit_is_reported(tmp_path, monkeypatch):
    """It was raised again while the report was written, and no report was left."""

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gate.host, "provenance", full)
    monkeypatch.setattr(gate, "load_suite", full)
    request = Request(suite=Path("s.toml"), out=tmp_path / "out", environ={}, live=False)
    with pytest.raises(FlashcoreError, match="No space left"):
        gate.gate(request, print)
    assert reports.read(tmp_path / "out").judged_commit == ""
