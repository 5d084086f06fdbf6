"""The matrix of a GitHub job."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import jsonschema
import pytest

from flashcore_ci.fleet import ci
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.shard import Needs, ShardFile, Unit
from flashcore_ci.model.suite import Kind

SCHEMA = jsonschema.Draft202012Validator(json.loads((Path(__file__).parents[2] / "schemas/matrix.json").read_bytes()))
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


@pytest.mark.parametrize("count", [1, 2, 256])
def test_the_matrix_fits_its_schema(count: int) -> None:
    files = tuple(Path(f"runs/shards/shard-{number:03}-abc.json") for number in range(count))
    assert list(SCHEMA.iter_errors(json.loads(ci.matrix((SHARD,) * count, files)))) == []


@pytest.mark.parametrize("wrong", [{}, {"include": []}, {"include": [{}]}, {"include": [{"a": None}]}, {"include": [{"a b": 1}]}])
def test_the_schema_can_refuse(wrong: object) -> None:
    assert list(SCHEMA.iter_errors(wrong))


def test_a_matrix_has_githubs_limit() -> None:
    with pytest.raises(UsageError, match="at most 256 jobs"):
        ci.matrix((SHARD,) * 257, (Path("x"),) * 257)


def test_a_shard_for_several_gpus_says_so() -> None:
    pair = dataclasses.replace(SHARD, needs=dataclasses.replace(SHARD.needs, gpus=2))
    (entry,) = json.loads(ci.matrix((pair,), (Path("shard-001-abc.json"),)))["include"]
    assert entry["gpus"] == 2
    assert list(SCHEMA.iter_errors({"include": [entry]})) == []
