"""What a shard file cannot say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flashcore_ci.model.shard import Needs, ShardFile, Unit
from flashcore_ci.model.suite import Kind

SHARD = ShardFile(
    suite="s", suite_file="s.toml", plan="f" * 64, commit="1" * 40, index=1, count=1,
    units=(Unit(kind=Kind.TIMING, workload="w"),), parts=("f" * 64,),
    needs=Needs(gpus=1, architecture="sm_90a", exclusive=True, seconds=1.0),
)  # fmt: skip


@pytest.mark.parametrize("base", ["", "1" * 40, "a" * 64])
def test_a_base_is_a_commit(base: str) -> None:
    assert replace(SHARD, base=base).base == base


@pytest.mark.parametrize("base", ["/tmp", "../../elsewhere", "main", "HEAD^", "--output=x", "1" * 39, "A" * 40, "1" * 40 + "\n"])
def test_a_folder_or_a_branch_is_no_base(base: str) -> None:
    """The base's files are in a folder with the name of the commit. A path would be measured in its place."""
    with pytest.raises(ValueError, match="is not a commit"):
        replace(SHARD, base=base)


@pytest.mark.parametrize("change", [{"gpus": 0}, {"gpus": -1}, {"seconds": -1.0}])
def test_needs_are_possible(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is impossible"):
        replace(SHARD.needs, **change)
