"""Time versions of the kernels on one GPU, each in fresh processes that load no other version.

    python3 tools/study/kernel_versions_apart.py FOLDER OUT SECONDS

FOLDER has what ``kernel_versions.py`` wrote: ``measure.json``, libraries and Python files. A round is one process per version, in random
order. The next processes have loaded their version and wait for the GPU's lock. Each process writes its file after every row.
"""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import random
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools/detectors"), str(ROOT / "tools/study")]
import kernel_versions_gpu as together  # noqa: E402
import sitting  # noqa: E402

SETTLE_S = 0.8
WAITING = 4
FAILURES = 6
"""So many processes that end with an error end the sitting."""


def loaded(folder: pathlib.Path) -> list[str]:
    """Name the versions' libraries that this process has."""
    lines = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return sorted({pathlib.Path(line.split()[-1]).name for line in lines if line.endswith(".so") and str(folder) in line})


def worker(folder: pathlib.Path, out: pathlib.Path, number: int, name: str, deadline: float) -> None:
    """Load one version, wait for the GPU, and time every row once in random order."""
    import torch  # noqa: PLC0415 - slow

    from flashcore_ci.worker.driver import Driver  # noqa: PLC0415

    sitting.PROTOCOL, together.SETTLE_S = together.PROTOCOL, SETTLE_S
    table = json.loads((folder / "measure.json").read_text(encoding="utf-8"))
    os.environ["SEPARATED"] = str(folder / "libraries")
    version = together.Version(folder, table["versions"][name])
    driver = Driver()
    with (out / "lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if time.time() > deadline:
            os._exit(0)
        flush = torch.empty(126_000_000, dtype=torch.int8, device="cuda")
        record: dict[str, Any] = {"process": number, "version": name, "began": round(time.time(), 2), "torch": torch.__version__}
        record |= {"rows": {}, "libraries": loaded(folder), "device": device(torch)}
        together.settle(driver, torch)
        for row, spec in random.sample(list(table["rows"].items()), len(table["rows"])):
            inputs = version.subject.inputs(spec["params"], 1)
            outputs = version.subject.outputs(inputs)
            version.subject.run(inputs, outputs)
            found = sitting.median(driver, flush, version.subject, inputs)
            record["rows"][row] = {
                **found,
                "sum": float(outputs["out"].double().sum()),
                "norm": float(outputs["out"].double().norm()),
            }
            sitting.save(out, record)
            del inputs, outputs
            torch.cuda.empty_cache()
        record["seconds"] = round(time.time() - record["began"], 2)
        sitting.save(out, record)
        os._exit(0)


def device(torch: Any) -> dict[str, Any]:
    """Return what the history keeps of a GPU."""
    found = torch.cuda.get_device_properties(0)
    names = ("name", "multi_processor_count", "total_memory", "L2_cache_size", "major", "minor")
    return {name: getattr(found, name, 0) for name in names}


def order_of(names: list[str]) -> list[str]:
    """Return a round: every version once, in random order."""
    return random.sample(names, len(names))


def main(folder: pathlib.Path, out: pathlib.Path, seconds: float) -> None:
    """Keep processes waiting for the GPU until the time is over."""
    query = ["nvidia-smi", "--query-gpu=name,uuid,driver_version,memory.total", "--format=csv,noheader"]
    gpus = subprocess.run(query, capture_output=True, text=True, check=False).stdout.splitlines()
    visible = os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    out.mkdir(parents=True, exist_ok=True)
    facts = {"protocol": together.PROTOCOL, "settle_s": SETTLE_S, "gpus": gpus, "visible": visible}
    facts["at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    (out / "sitting.json").write_text(json.dumps(facts), encoding="ascii")
    names = list(json.loads((folder / "measure.json").read_text(encoding="utf-8"))["versions"])
    deadline, number, failed, queue = time.time() + seconds, 0, 0, list[str]()
    started: list[subprocess.Popen[bytes]] = []
    while time.time() < deadline - 6.0 and failed < FAILURES:
        failed += sum(process.poll() not in (None, 0) for process in started)
        started = [process for process in started if process.poll() is None]
        while len(started) <= WAITING:
            queue = queue or order_of(names)
            command = [sys.executable, __file__, str(folder), str(out), str(deadline - 3.0), str(number), queue.pop()]
            with (out / "log.txt").open("ab") as log:
                started.append(subprocess.Popen(command, stdout=log, stderr=log))
            number += 1
        time.sleep(0.05)
    for process in started:
        try:
            process.wait(max(0.1, deadline + 1.0 - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()


if __name__ == "__main__":
    paths = [pathlib.Path(argument).resolve() for argument in sys.argv[1:3]]
    if len(sys.argv) == 6:  # noqa: PLR2004
        worker(paths[0], paths[1], int(sys.argv[4]), sys.argv[5], float(sys.argv[3]))
    else:
        main(paths[0], paths[1], float(sys.argv[3]))
