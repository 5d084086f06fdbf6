"""Connect this rank with the others, over a file and the links of this machine."""

from __future__ import annotations

import datetime as dt
import os
import secrets
from types import ModuleType
from typing import Any

from flashcore_ci.worker.group import LiveGroup, RankSubject
from flashcore_ci.worker.job import Job

SPARE_SECONDS = 300
"""How much longer than the leader a rank waits for the others. So the leader says which one is late."""
RECORDED = "messages"
_live: tuple[LiveGroup, bytes] | None = None


def connect(job: Job, backend: str) -> str:
    """Join the process group of this job. Return what carries its messages."""
    global _live  # noqa: PLW0603 - torch.distributed has one process group per process
    import torch
    import torch.distributed as dist

    rank, size = int(job.options["rank"]), int(job.options["gpus"])
    store = dist.FileStore(str(job.folder / "rendezvous"), size)
    seconds = float(job.options["rank_seconds"]) + SPARE_SECONDS
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=dt.timedelta(seconds=seconds))
    if rank == 0:
        store.set("common", secrets.token_hex())
    group = LiveGroup(rank, size)
    group.compares = job.kind == "correctness"
    group.barrier()
    _live = group, store.get("common")
    if not torch.cuda.is_available():
        return backend
    torch.cuda.synchronize()
    version = ".".join(str(part) for part in torch.cuda.nccl.version())
    return f"NCCL {version}, NCCL_NVLS_ENABLE={os.environ.get('NCCL_NVLS_ENABLE', '')}"


def leave() -> None:
    """Wait until every rank has done its work: one that ends takes its memory away from the others."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    if _live is not None:
        _live[0].worst([0.0])


def of_rank(job: Job, module: ModuleType) -> Any:
    """Return the subject as this rank sees it. Recorded messages need inputs that can be drawn again."""
    if _live is None:
        raise ValueError("this process is not part of a group")
    group, common = _live
    return RankSubject(module, group, *((b"", b"") if job.kind == RECORDED else (secrets.token_bytes(16), common)))
