"""Run one workload, and keep the machine code of each kernel that it launches."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from flashcore_ci.model.codes import Code
from flashcore_ci.model.jit import MAX_LAUNCHES
from flashcore_ci.worker import compiled, guard
from flashcore_ci.worker.compiled import Observer
from flashcore_ci.worker.job import Job, Result, Work, missing
from flashcore_ci.worker.subject_file import Subjects

WARM_UPS = 2
"""Launches in which frameworks compile and autotuners choose."""
MAX_NAME = 500


def run(job: Job, result: Result) -> bool:
    """Write one outcome per workload: launches, cubins next to the result, and choices."""
    import torch

    guard.begin(job, result)
    observer, subjects = Observer(), Subjects(job)
    folder = job.folder / "cubins"
    folder.mkdir()

    def observe(work: Work) -> dict[str, Any]:
        subject = subjects[work.subject]
        inputs = subject.inputs(work.params, work.seed)
        outputs = subject.outputs(inputs)
        for _ in range(WARM_UPS):
            subject.run(inputs, outputs)
        torch.cuda.synchronize()
        observer.forget()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            subject.run(inputs, outputs)
            torch.cuda.synchronize()
        trace = job.folder / "trace.json"
        profiler.export_chrome_trace(str(trace))
        launches = read_launches(json.loads(trace.read_text(encoding="utf-8", errors="replace")))
        if not launches or len(launches) > MAX_LAUNCHES:
            return missing(Code.KERNEL_NOT_SEEN, f"PyTorch's profiler saw {len(launches)} launches")
        return {
            "launches": launches,
            "cubins": keep_cubins(observer, folder),
            "choices": observer.choices(),
            "libraries": _digests(),
        }

    return guard.run_each(job, result, observe, subjects)


def read_launches(trace: Any) -> list[list[Any]]:
    """Return (kernel, grid, block, bytes of shared memory) of each launch in a trace of PyTorch's profiler, in order of time."""
    kernels = [event for event in trace.get("traceEvents", ()) if isinstance(event, dict) and event.get("cat") == "kernel"]
    found = []
    for event in sorted(kernels, key=lambda event: float(event.get("ts", 0.0))):
        facts = event.get("args", {})
        grid, block = (",".join(str(int(size)) for size in facts.get(name, ())) for name in ("grid", "block"))
        found.append([str(event.get("name", ""))[:MAX_NAME], grid, block, int(facts.get("shared memory", 0))])
    return found


def keep_cubins(observer: Observer, folder: Path) -> list[list[str]]:
    """Write all cubins of this process into ``folder``. Return (framework, file, kernel that a launch was seen of, or "")."""
    kept: dict[str, list[str]] = {}
    loaded = [("driver", image) for image in observer.loaded]
    exact = [("triton", image, name) for name, image in observer.kernels.values() if image]
    for framework, image, name in (*exact, *((framework, image, "") for framework, image in (*loaded, *compiled.images()))):
        digest = hashlib.sha256(image).hexdigest()
        if digest not in kept and len(kept) < compiled.MAX_IMAGES:
            (folder / f"{digest}.cubin").write_bytes(image)
            kept[digest] = [framework, f"{digest}.cubin", name]
    return list(kept.values())


def _digests() -> list[list[str]]:
    return [[name, hashlib.sha256(Path(name).read_bytes()).hexdigest()] for name in compiled.libraries() if Path(name).is_file()]
