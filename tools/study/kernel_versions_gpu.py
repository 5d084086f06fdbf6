"""Time every built version of the kernels on one GPU, all of them in each process, in random order.

    python3 tools/study/kernel_versions_gpu.py FOLDER OUT SECONDS

FOLDER is what ``kernel_versions.py`` wrote. A process settles the clocks, then takes each row with each version once. The next
ones have imported torch and wait for the GPU's lock. Each process writes its file after every row.
"""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
from types import ModuleType
from typing import Any, ClassVar

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools/detectors")]
import sitting  # noqa: E402

PROTOCOL = {"lead_ms": 15.0, "window_ms": 45.0, "blocks": 8}
SETTLE_S = 1.5
WAITING = 2


class Version:
    """One version: its library, and the package that was its binding."""

    entered: ClassVar[Version | None] = None

    def __init__(self, folder: pathlib.Path, row: dict[str, Any]) -> None:
        self.modules: dict[str, ModuleType] = {}
        self.python = folder / "python" / row["python"] / "kernel"
        self.enter()
        sys.path[:] = [str(self.python), *(path for path in sys.path if not path.endswith("/kernel"))]
        self.subject = sitting.load_file(self.python / f"subjects/{row['subject']}.py", f"{row['python']}_{row['subject']}")
        self.subject.load(pathlib.Path(os.environ["SEPARATED"]) / row["library"])

    def enter(self) -> None:
        """Make this version's package the one that ``import flashcore`` finds. It may load parts of itself later."""
        present = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "flashcore"}
        if Version.entered is not None:
            Version.entered.modules = present
        for name in present:
            del sys.modules[name]
        sys.modules.update(self.modules)
        Version.entered = self


def settle(driver: Any, torch: Any) -> None:
    """Keep the GPU busy, so that its clocks are those of work."""
    matrix, end = torch.randn((8192, 8192), device="cuda", dtype=torch.float16), time.time() + SETTLE_S
    while time.time() < end:
        for _ in range(20):
            matrix @ matrix
        torch.cuda.synchronize()
    driver.tick()


def worker(folder: pathlib.Path, out: pathlib.Path, number: int, deadline: float) -> None:
    """Import torch, wait for the GPU, and time every version of every row in random order."""
    import torch  # noqa: PLC0415 - slow

    from flashcore_ci.worker.driver import Driver  # noqa: PLC0415

    sitting.PROTOCOL = PROTOCOL
    table = json.loads((folder / "measure.json").read_text(encoding="utf-8"))
    with (out / "lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if time.time() > deadline:
            os._exit(0)
        driver, flush = Driver(), torch.empty(126_000_000, dtype=torch.int8, device="cuda")
        record: dict[str, Any] = {"process": number, "began": round(time.time(), 2), "torch": torch.__version__, "rows": {}}
        found = torch.cuda.get_device_properties(0)
        names = ("name", "multi_processor_count", "total_memory", "L2_cache_size", "major", "minor")
        record["device"] = {name: getattr(found, name, 0) for name in names}
        versions: dict[str, Version] = {}
        for name, row in random.sample(list(table["versions"].items()), len(table["versions"])):
            try:
                versions[name] = Version(folder, row)
            except Exception as error:  # noqa: BLE001 - an old version may not load. That is an answer
                record.setdefault("errors", {})[name] = repr(error)[:500]
        settle(driver, torch)
        for row, spec in random.sample(list(table["rows"].items()), len(table["rows"])):
            record["rows"][row] = time_row(driver, flush, spec, versions, torch, check=number == 0)
            sitting.save(out, record)
            torch.cuda.empty_cache()
        record["seconds"] = round(time.time() - record["began"], 2)
        sitting.save(out, record)
        os._exit(0)


def time_row(driver: Any, flush: Any, spec: dict[str, Any], versions: dict[str, Version], torch: Any, *, check: bool) -> Any:
    """Time one row with every version that has it, on the same tensors. The newest version draws them."""
    newest = versions[spec["versions"][-1]]
    newest.enter()
    inputs = newest.subject.inputs(spec["params"], 1)
    wanted = newest.subject.outputs(inputs)
    newest.subject.run(inputs, wanted)
    times: dict[str, Any] = {}
    for name in random.sample(spec["versions"], len(spec["versions"])):
        version = versions.get(name)
        if version is None:
            continue
        version.enter()
        try:
            times[name] = sitting.median(driver, flush, version.subject, inputs)
            if check:
                found = version.subject.outputs(inputs)
                version.subject.run(inputs, found)
                torch.cuda.synchronize()
                times[name]["difference"] = float((found["out"].float() - wanted["out"].float()).abs().max())
        except Exception as error:  # noqa: BLE001 - as above
            times[name] = {"error": repr(error)[:500]}
    return times


def main(folder: pathlib.Path, out: pathlib.Path, seconds: float) -> None:
    """Keep processes waiting for the GPU until the time is over."""
    query = ["nvidia-smi", "--query-gpu=name,uuid,driver_version,memory.total", "--format=csv,noheader"]
    gpus = subprocess.run(query, capture_output=True, text=True, check=False).stdout.splitlines()
    visible = os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    out.mkdir(parents=True, exist_ok=True)
    separated = sitting.separated(folder / "libraries")
    os.environ["SEPARATED"] = str(separated)
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    (out / "sitting.json").write_text(
        json.dumps({"protocol": PROTOCOL, "at": at, "gpus": gpus, "visible": visible}), encoding="ascii"
    )
    deadline, number, longest = time.time() + seconds, 0, 0.0
    started: list[subprocess.Popen[bytes]] = []
    while time.time() < deadline - longest:
        started = [process for process in started if process.poll() is None]
        for path in out.glob("process-*.json"):
            longest = max(longest, json.loads(path.read_text(encoding="ascii")).get("seconds", 0.0))
        while len(started) <= WAITING and time.time() < deadline - longest:
            command = [sys.executable, __file__, str(folder), str(out), str(deadline - longest), str(number)]
            with (out / "log.txt").open("ab") as log:
                started.append(subprocess.Popen(command, stdout=log, stderr=log))
            number += 1
        time.sleep(0.1)
    end = deadline + 1.0
    for process in started:
        try:
            process.wait(max(0.1, end - time.time()))
        except subprocess.TimeoutExpired:
            process.kill()
    shutil.rmtree(separated)


if __name__ == "__main__":
    paths = [pathlib.Path(argument).resolve() for argument in sys.argv[1:3]]
    if len(sys.argv) == 5:  # noqa: PLR2004
        worker(paths[0], paths[1], int(sys.argv[4]), float(sys.argv[3]))
    else:
        main(paths[0], paths[1], float(sys.argv[3]))
