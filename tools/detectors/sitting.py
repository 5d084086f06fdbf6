"""Record one sitting of the labelled history: many medians of fresh processes on every GPU, unchanged and with planted work.

    python3 tools/detectors/sitting.py LIBRARIES OUT SECONDS

LIBRARIES has libflashcore_{attention,decode,stream,planted}.so. The protocol is shorter than that of `gate` (PROTOCOL), so that a
minute gives hundreds of medians. One process at a time uses a GPU. The next ones have imported torch and wait for its lock.
``GPUS="1"`` in the environment leaves the other GPUs alone.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTOCOL = {"lead_ms": 15.0, "window_ms": 45.0, "blocks": 8}
WAITING = 5  # processes per GPU that have started
FAILURES = 10  # of processes, that end the sitting
A, D, S = "attention", "decode", "stream"
BASE = {"dtype": "fp16", "h": 16, "causal": False}
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "prefill-fp16-b16-h16-s2048-d64": (A, {**BASE, "b": 16, "sq": 2048, "d": 64}),
    "prefill-fp16-b16-h16-s2048-d64-causal": (A, {**BASE, "b": 16, "sq": 2048, "d": 64, "causal": True}),
    "prefill-fp16-b16-h16-s2048-d128": (A, {**BASE, "b": 16, "sq": 2048, "d": 128}),
    "prefill-fp16-b16-h16-s2048-d128-causal": (A, {**BASE, "b": 16, "sq": 2048, "d": 128, "causal": True}),
    "prefill-fp16-b4-h16-s8192-d64-causal": (A, {**BASE, "b": 4, "sq": 8192, "d": 64, "causal": True}),
    "prefill-fp16-b4-h16-s8192-d128": (A, {**BASE, "b": 4, "sq": 8192, "d": 128}),
    "prefill-fp16-b64-h16-s512-d64": (A, {**BASE, "b": 64, "sq": 512, "d": 64}),
    "prefill-fp16-b16-h8-s2048-d256": (A, {**BASE, "b": 16, "h": 8, "sq": 2048, "d": 256}),
    "decode-fp16-b8-h32-kv8-s32768-d128": (D, {"dtype": "fp16", "b": 8, "h": 32, "hkv": 8, "sk": 32768, "d": 128}),
    "stream-f32-2gib": (S, {"n": 178_956_970}),
}
TENTHS = tuple(level / 10 for level in range(11))
PLANTED: dict[str, tuple[str, dict[str, Any], int, tuple[float, ...]]] = {  # kernel, parameters, extra of the pilot, levels (%)
    "planted-prefill-s2048-d64": (A, {"h": 16, "b": 16, "sq": 2048, "d": 64}, 20_000, (*TENTHS, 3.0)),
    "planted-prefill-s2048-d128": (A, {"h": 16, "b": 16, "sq": 2048, "d": 128}, 20_000, (0.0, 0.1, 0.3, 0.5, 1.0, 3.0)),
    "planted-stream-2gib": (S, {"n": 178_956_970}, 4_369, (0.0, 0.1, 0.3, 0.5, 1.0, 3.0)),
}


def load_file(path: pathlib.Path, name: str) -> Any:
    """Load a subject's file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def separated(libraries: pathlib.Path) -> pathlib.Path:
    """Copy libraries without STB_GNU_UNIQUE, by which all libraries of a process share inline variables."""
    copies = pathlib.Path(tempfile.mkdtemp(prefix="libraries-"))
    for library in libraries.glob("*.so"):
        data = bytearray(library.read_bytes())
        at, (size, count) = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<HH", data, 58)
        sections = [struct.unpack_from("<IIQQQQ", data, at + size * number) for number in range(count)]
        for start, length in ((section[4], section[5]) for section in sections if section[1] == 11):  # SHT_DYNSYM
            for info in range(start + 4, start + length, 24):
                if data[info] >> 4 == 10:  # STB_GNU_UNIQUE becomes STB_WEAK
                    data[info] = 2 << 4 | data[info] & 15
        (copies / library.name).write_bytes(data)
    return copies


def median(driver: Any, flush: Any, module: Any, inputs: Any) -> dict[str, float]:
    """Time one workload: blocks of launches with a cold L2, each between two readings of every SM's clock."""
    import torch

    outputs = module.outputs(inputs)

    def launch() -> tuple[Any, Any]:
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        start.record()
        module.run(inputs, outputs)
        stop.record()
        return start, stop

    pairs = [launch() for _ in range(4)]
    torch.cuda.synchronize()
    each = statistics.median(start.elapsed_time(stop) for start, stop in pairs) + 0.05
    whole = PROTOCOL["lead_ms"] + PROTOCOL["window_ms"]
    size = whole / PROTOCOL["blocks"]
    count, blocks = max(3, round(size / each)), []
    for _ in range(int(PROTOCOL["blocks"])):
        before = driver.tick()
        pairs = [launch() for _ in range(count)]
        blocks.append((before, pairs, driver.tick()))
    torch.cuda.synchronize()
    found = []
    for before, pairs, after in blocks[int(PROTOCOL["blocks"] * PROTOCOL["lead_ms"] / whole) :]:
        ms, mhz = statistics.median(start.elapsed_time(stop) for start, stop in pairs), driver.megahertz(before, after)
        found.append((ms, ms * mhz * 1e-3, mhz))
    return dict(zip(("ms", "megacycles", "mhz"), map(statistics.median, zip(*found, strict=True)), strict=True))


def worker(libraries: pathlib.Path, out: pathlib.Path, number: int, deadline: float) -> None:
    """Import torch, wait for the GPU, and time every row once in random order."""
    import torch

    sys.path[:0] = [str(ROOT), str(ROOT / "kernel")]
    from flashcore_ci.worker.driver import Driver

    subjects = {name: load_file(ROOT / f"kernel/subjects/{name}.py", name) for name in (A, D, S)}
    slowed = load_file(ROOT / "kernel/planted/subject.py", "planted")
    with (out / "lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if time.time() > deadline:
            os._exit(0)
        driver, flush = Driver(), torch.empty(126_000_000, dtype=torch.int8, device="cuda")
        record: dict[str, Any] = {"process": number, "began": round(time.time(), 2), "rows": {}}
        rows, planted = list(ROWS.items()), list(PLANTED.items())
        random.shuffle(rows)
        random.shuffle(planted)
        for name, module in subjects.items():
            module.load(libraries / f"libflashcore_{name}.so")
        for name, (kernel, params) in rows:
            record["rows"][name] = median(driver, flush, subjects[kernel], subjects[kernel].inputs(params, number))
        save(out, record)
        try:
            slowed.load(libraries / "libflashcore_planted.so")
            for name, (kernel, params, extra, levels) in planted:
                record["rows"] |= levels_of(out, driver, flush, slowed, name, {**params, "kernel": kernel}, extra, levels, number)
                save(out, record)
        except (OSError, RuntimeError, ValueError) as error:  # the kernels as they ship are recorded without them
            save(out, {**record, "error": repr(error)[:500]})
        os._exit(0)  # the lock ends with the process and its context


def save(out: pathlib.Path, record: dict[str, Any]) -> None:
    """Replace the process's file."""
    path = out / f"process-{record['process']}.json"
    path.with_suffix(".tmp").write_text(json.dumps(record), encoding="ascii")
    path.with_suffix(".tmp").rename(path)


def levels_of(
    out: pathlib.Path, driver: Any, flush: Any, module: Any, name: str, params: Any, extra: int, levels: Any, seed: int
) -> dict[str, Any]:
    """Time every planted level in random order. The first process measures what the extra work costs."""
    inputs, scale = module.inputs({**params, "extra": 0}, seed), "ms" if "stream" in name else "megacycles"
    pilot = out / f"pilot-{name}.json"
    if not pilot.exists():
        costs = [median(driver, flush, module, {**inputs, "extra": each})[scale] for each in (0, extra, 0, extra)]
        per_percent = extra / (100.0 * ((costs[1] + costs[3]) / (costs[0] + costs[2]) - 1.0))
        pilot.write_text(json.dumps({"extra": extra, "costs": costs, "per_percent": per_percent}), encoding="ascii")
    per_percent = json.loads(pilot.read_text(encoding="ascii"))["per_percent"]
    order = random.sample(levels, len(levels))
    return {
        f"{name}+{level:g}%": median(driver, flush, module, {**inputs, "extra": round(level * per_percent)}) for level in order
    }


def sitting(libraries: pathlib.Path, out: pathlib.Path, seconds: float) -> None:
    """Keep processes waiting on every GPU until the time is over."""
    libraries = separated(libraries)
    query = ["nvidia-smi", "--query-gpu=name,uuid,driver_version", "--format=csv,noheader"]
    gpus = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    deadline, number = time.time() + seconds, 0
    facts = {"protocol": PROTOCOL, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "gpus": gpus}
    out.mkdir(parents=True, exist_ok=True)
    (out / "sitting.json").write_text(json.dumps(facts), encoding="ascii")
    used = os.environ.get("GPUS", " ".join(map(str, range(len(gpus))))).split()
    waiting: dict[str, list[subprocess.Popen[bytes]]] = {index: [] for index in used}
    failed = 0
    while time.time() < deadline and failed < FAILURES:
        for index, started in waiting.items():
            failed += sum(process.poll() not in (None, 0) for process in started)
            started[:] = [process for process in started if process.poll() is None]
            folder = out / f"gpu-{index}"
            folder.mkdir(exist_ok=True)
            while len(started) < WAITING and time.time() < deadline - 8.0:
                command = [sys.executable, __file__, str(libraries), str(folder), str(deadline - 3.0), str(number)]
                with (folder / "log.txt").open("ab") as log:
                    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": index}
                    started.append(subprocess.Popen(command, stdout=log, stderr=log, env=environ))
                number += 1
        if number > 400:
            break
        time.sleep(0.1)
    for process in (process for started in waiting.values() for process in started):
        process.wait()
    shutil.rmtree(libraries)


if __name__ == "__main__":
    if len(sys.argv) == 5:
        worker(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[4]), float(sys.argv[3]))
    else:
        sitting(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), float(sys.argv[3]))
