"""The matrix of a GitHub job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flashcore_ci.fleet import ci
from flashcore_ci.model.shard import Needs, ShardFile, Unit
from flashcore_ci.model.suite import Kind

SHARD = ShardFile(
    suite="tiny",
    suite_file="gates/tiny.toml",
    plan="f" * 64,
    commit="1" * 40,
    index=1,
    count=1,
    units=(Unit(kind=Kind.TIMING, workload="big"),),
    needs=Needs(gpus=1, architecture="", exclusive=True, seconds=600.0),
)


def test_the_matrix_is_one_line_of_json() -> None:
    text = ci.matrix((SHARD,), (Path("runs/shards/shard-001-abc.json"),))
    assert json.loads(text) == {"include": [{"name": "shard 1 of 1", "shard": "shard-001-abc.json", "minutes": 35}]}
    assert "\n" not in text


def test_a_matrix_has_githubs_limit() -> None:
    with pytest.raises(ValueError, match="at most 256 jobs"):
        ci.matrix((SHARD,) * 257, (Path("x"),) * 257)
