"""The structures that compute-sanitizer tracks are large enough for our kernels."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from flashcore_ci.adapters import sanitizer
from flashcore_ci.collect import sanitizer as collector

KERNEL = Path(__file__).parents[3] / "kernel"
FIELD = re.compile(r"\.(\w+) = (\d+)")
QUEUE = int(re.findall(r"kWorkQueueSlots = (\d+)", (KERNEL / "include/flashcore/decode/config.h").read_text())[0])


def barriers(file: Path) -> int:
    """Count the barriers in the kernel's shared memory: two per slot of a ring (shared_storage.cuh)."""
    fields = {name: int(value) for name, value in FIELD.findall(file.read_text(encoding="utf-8"))}
    if "kv_stages" in fields:
        return 2 * (fields["consumer_warpgroups"] * fields["q_stages"] + 2 * fields["kv_stages"])
    return 2 * (fields["stages"] + QUEUE)


def room(check: str) -> int:
    argv = sanitizer.argv(Path("/cs"), check, kernels=(), log=Path("/log"), command=("python",))
    return int(dict(itertools.pairwise(argv))["--num-cuda-barriers"])


@pytest.mark.parametrize("check", ["racecheck", "synccheck"])
def test_there_is_room_for_the_barriers_of_every_kernel(check: str) -> None:
    files = sorted([*KERNEL.glob("instantiations/*_fwd_*.cu"), *KERNEL.glob("instantiations/*_decode_*.cu")])
    assert len(files) >= 18
    assert max(map(barriers, files)) * 2 <= room(check)


def test_the_machine_s_environment_cannot_make_the_tool_see_less() -> None:
    assert collector.VARIABLES.items() >= sanitizer.VARIABLES.items()
    assert int(sanitizer.VARIABLES["NV_COMPUTE_SANITIZER_MAX_RACECHECK_HAZARDS"]) >= 10_000_000
    assert sanitizer.VARIABLES["NV_COMPUTE_SANITIZER_BINARY_PATCHING"] == "1"
