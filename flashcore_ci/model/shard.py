"""A shard: the part of a plan that one GPU measures, as a file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from flashcore_ci.model.devices import ARCHITECTURES
from flashcore_ci.model.suite import Kind

COMMIT = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One kind of evidence on one workload. A unit is never split over two GPUs."""

    kind: Kind
    workload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a shard needs: ``gpus`` that run this ``architecture`` (empty: any), alone, for about so many ``seconds``."""

    gpus: int
    architecture: str
    exclusive: bool
    seconds: float

    def __post_init__(self) -> None:
        if self.architecture and self.architecture not in ARCHITECTURES:
            raise ValueError(f"the architecture {self.architecture!r} is not known")
        if self.gpus < 1 or self.seconds < 0:
            raise ValueError(f"{self.gpus} GPUs for {self.seconds:g} s is impossible")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFile:
    """The content of a shard file: number ``index`` of ``count``, from 1, at this commit.

    ``plan``: SHA-256 of what it measures. ``parts``: the digest of each shard's units. ``base``: the commit to compare with, or empty.
    """

    suite: str
    suite_file: str
    plan: str
    commit: str
    index: int
    count: int
    units: tuple[Unit, ...]
    parts: tuple[str, ...]
    needs: Needs
    base: str = ""
    schema: Literal["shard-v1"] = "shard-v1"

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise ValueError(f"shard {self.index} of {self.count} is impossible")
        if not self.units or len(set(self.units)) != len(self.units):
            raise ValueError("a shard has no unit, or one of them twice")
        if len(self.parts) != self.count:
            raise ValueError(f"a cut into {self.count} shards has {len(self.parts)} parts")
        if not COMMIT.fullmatch(self.base):  # it names a folder of the base's files
            raise ValueError(f"the base {self.base!r} is not a commit")
