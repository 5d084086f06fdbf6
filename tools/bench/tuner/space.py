"""The configurations that the machine and the kernel allow, without compiling the kernel's assertions. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

SHARED_LIMIT = 227 * 1024  # bytes of a block
BARRIER_BYTES = 1024
ELEMENT_BYTES = 2
WARPGROUP_ROWS = 64
WARPGROUP_THREADS = 128
REGISTER_FILE = 65536
REGISTER_STEP = 8
PRODUCER_LEAST = 24  # registers, the minimum of setmaxnreg
ADDRESSING = 23  # registers that compiled schedules need in addition to the operands, at least
STAGES = (2, 3, 4)
QUERY_STAGES = (1, 2)
WARPGROUPS = (2, 3)
TILE_N = range(48, 257, 16)  # the widths of wgmma are the multiples of its depth up to 256


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Candidate:
    """The tunable fields of a table ``[attention.tiles.NAME]``. ``switches`` are its booleans, sorted by name."""

    head_dim: int
    tile_m: int
    tile_n: int
    q_stages: int
    kv_stages: int
    consumer_warpgroups: int
    switches: tuple[tuple[str, bool], ...] = ()

    @property
    def name(self) -> str:
        """A unique name."""
        stages = f"q{self.q_stages}-kv{self.kv_stages}-wg{self.consumer_warpgroups}"
        on = "".join(f"-{key.replace('_', '')}" for key, value in self.switches if value)
        return f"d{self.head_dim}-{self.tile_m}x{self.tile_n}-{stages}{on}"

    @property
    def shared_bytes(self) -> int:
        """Bytes of queries, keys, values and barriers, as in attention/config.h."""
        rows = self.q_stages * self.tile_m + 2 * self.kv_stages * self.tile_n
        return rows * self.head_dim * ELEMENT_BYTES + BARRIER_BYTES

    @property
    def registers_at_launch(self) -> int:
        """Registers per thread before setmaxnreg."""
        return REGISTER_FILE // ((1 + self.consumer_warpgroups) * WARPGROUP_THREADS) // REGISTER_STEP * REGISTER_STEP

    @property
    def registers_granted(self) -> int:
        """The most registers of a consumer thread, if the producer has its minimum."""
        pool = (1 + self.consumer_warpgroups) * self.registers_at_launch - PRODUCER_LEAST
        return min(pool // self.consumer_warpgroups // REGISTER_STEP * REGISTER_STEP, 240)

    @property
    def registers_needed(self) -> int:
        """Registers of scores and output in fp32, of probabilities, and perhaps of the query."""
        subtiles = self.tile_m // (self.consumer_warpgroups * WARPGROUP_ROWS)
        query = self.head_dim // 4 if dict(self.switches).get("query_in_registers") else 0
        return subtiles * (self.head_dim // 2 + self.tile_n // 4 + query) + self.tile_n // 2 + ADDRESSING

    def fields(self) -> dict[str, Any]:
        """Return the values for kernel/variants.toml."""
        sizes = {key: value for key, value in asdict(self).items() if key != "switches"}
        return {**sizes, **dict(self.switches), "dynamic_shared_bytes": self.shared_bytes}


SIZES = ("head_dim", "tile_m", "tile_n", "q_stages", "kv_stages", "consumer_warpgroups")


def of_table(tile: Mapping[str, Any]) -> Candidate:
    """Read the candidate from a table ``[attention.tiles.NAME]``."""
    switches = tuple(sorted((key, value) for key, value in tile.items() if isinstance(value, bool)))
    return Candidate(**{key: tile[key] for key in SIZES}, switches=switches)


def objections(candidate: Candidate) -> Iterator[str]:
    """Yield a sentence for each constraint that the candidate breaks."""
    one = candidate
    if one.shared_bytes > SHARED_LIMIT:
        yield f"{one.shared_bytes} bytes of shared memory, {SHARED_LIMIT} are allowed"
    if one.tile_m - one.tile_m // one.consumer_warpgroups > one.tile_n:
        yield "a warpgroup would skip more than one KV block under a causal mask"
    yield from _of_switches(one)
    if one.registers_needed > one.registers_granted:
        yield f"about {one.registers_needed} registers, setmaxnreg can grant {one.registers_granted}"


def _of_switches(one: Candidate) -> Iterator[str]:
    on = dict(one.switches)
    if on.get("tma_store_epilogue") and (
        not on.get("ping_pong_barrier", True) or on.get("query_in_registers") or one.q_stages < max(QUERY_STAGES)
    ):
        yield "tma_store_epilogue reuses the query slot. It needs ping_pong_barrier, the query in shared memory and two query stages"
    if on.get("recompute_qk") and (
        not on.get("stale_max_speculation") or not on.get("query_in_registers") or on.get("ping_pong_barrier", True)
    ):
        yield "recompute_qk needs stale_max_speculation, the query in registers and no ping_pong_barrier"


def candidates(base: Candidate) -> list[Candidate]:
    """List every possible candidate of the base's head dimension, the base first."""
    names = [name for name, _ in base.switches]
    found = []
    for warpgroups, tile_n, q_stages, kv_stages, *values in itertools.product(
        WARPGROUPS, TILE_N, QUERY_STAGES, STAGES, *[(False, True)] * len(names)
    ):
        sizes = (base.head_dim, warpgroups * WARPGROUP_ROWS, tile_n, q_stages, kv_stages, warpgroups)
        found.append(Candidate(**dict(zip(SIZES, sizes, strict=True)), switches=tuple(zip(names, values, strict=True))))
    return [base, *sorted(one for one in found if one != base and not any(objections(one)))]
