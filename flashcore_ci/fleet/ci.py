"""The matrix of a GitHub job: one entry per shard. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.shard import ShardFile

MAX_ENTRIES = 256
"""Jobs that a matrix may have (GitHub, "Usage limits")."""


def matrix(shards: Sequence[ShardFile], files: Sequence[Path]) -> str:
    """Return ``{"include": [...]}`` in one line. UsageError for more entries than GitHub runs."""
    if len(shards) > MAX_ENTRIES:
        what = f"a matrix has at most {MAX_ENTRIES} jobs, and these are {len(shards)}"
        raise UsageError(what, fix="give a smaller --gpus and a new --out")
    entries = [
        {"name": f"shard {shard.index} of {shard.count}", "shard": file.name, "minutes": minutes(shard)}
        | ({"gpus": shard.needs.gpus} if shard.needs.gpus > 1 else {})
        for shard, file in zip(shards, files, strict=True)
    ]
    return json.dumps({"include": entries}, separators=(",", ":"))


def minutes(shard: ShardFile) -> int:
    """Return a time limit: five minutes and three times the estimate."""
    return 5 + round(3 * shard.needs.seconds / 60)
