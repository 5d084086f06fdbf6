"""What the pipeline decides without a machine."""

from pathlib import Path

import pytest

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
