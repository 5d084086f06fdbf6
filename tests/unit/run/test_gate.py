"""What the pipeline decides without a machine."""

from dataclasses import replace
from pathlib import Path

import pytest
from tool_files import PLAN, RUN

from flashcore_ci.model.codes import Code
from flashcore_ci.run import gate
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
