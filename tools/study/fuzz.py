"""Feed damaged input to every reader: ``make fuzz N=1000000``.

An input is a real file with a few mutations, and depends only on seed and number. The exit status is 1 if a reader raised an exception
that it does not promise, or returned a wrong result. Those inputs are kept in ``runs/fuzz``.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import lzma
import random
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz_apart
import fuzz_report
import fuzz_reviewed
from fuzz_apart import DiedError, Reports
from fuzz_inputs import MOST_BYTES, mutated

from flashcore_ci.adapters import elf, nvcc, nvdisasm, sanitizer, sanitizer_log
from flashcore_ci.build import python_text, tokens
from flashcore_ci.collect import child, correctness
from flashcore_ci.collect.sanitizer import between_marks
from flashcore_ci.model.errors import EvidenceError, SuiteError, UsageError
from flashcore_ci.model.evidence import Evidence
from flashcore_ci.model.noise import Noise
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.verdict import Report
from flashcore_ci.run.durations import Durations
from flashcore_ci.run.required_check import job_results
from flashcore_ci.store import bundle, codec, legacy, record_files
from flashcore_ci.store.manifest import MANIFEST, Manifest, member_of, verify_files
from flashcore_ci.suite.loader import load

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "tests/recordings"
KEEP = ROOT / "runs/fuzz"
MAX_SECONDS, MAX_MEMORY = 10, 500 << 20
"""Of a core, and of memory above that of the fuzzer, for one input."""


@dataclasses.dataclass(frozen=True)
class Reader:
    """A reader, its corpus, the exceptions it may raise, and ``wrong``: the reason why a result is wrong, or None."""

    corpus: list[bytes]
    read: Callable[[bytes], object]
    promised: tuple[type[Exception], ...] = ()
    wrong: Callable[[bytes, bytes, object], str | None] = lambda *_: None


def limit_memory() -> None:
    """Make an allocation fail that one input should not need."""
    used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MAX_MEMORY, resource.RLIM_INFINITY))


def take_too_long(*_: object) -> None:
    """End a reader that takes too long."""
    raise TimeoutError(f"it took more than {MAX_SECONDS} s of a core")


def text(data: bytes) -> str:
    """Decode as the output of a tool."""
    return data.decode("utf-8", errors="replace")


def files(*patterns: str, folder: Path = RECORDINGS, most: int = MOST_BYTES) -> list[bytes]:
    """Read the first ``most`` bytes of the matching files."""
    return [path.read_bytes()[:most] for pattern in patterns for path in sorted(folder.glob(pattern))]


def sanitizer_reader(check: str) -> Reader:
    """Read logs of this check. With an exit status of findings, or without a worker, no log is clean."""

    def read(data: bytes) -> list[bool]:
        log = sanitizer_log.parse(text(data), check)
        between_marks(sanitizer_log.parse_launches(text(data)), 0)
        found = [
            sanitizer.read_findings(log, returncode=status, version="2026.4.0", ran=ran)
            for status, ran in ((sanitizer.ERROR_EXIT, True), (0, False), (0, True))
        ]
        return [isinstance(reading, Measured) and reading.value == 0 for reading in found]

    def wrong(_: bytes, damaged: bytes, clean: Any) -> str | None:
        if clean[0] or clean[1]:
            return "clean, against the exit status or the worker"
        return "clean without a summary" if clean[2] and b"SUMMARY: 0 " not in damaged else None

    return Reader(corpus=files("sanitizer/*.log"), read=read, wrong=wrong)


def small_run() -> dict[str, bytes]:
    """Return the files of the recorded defects run, with only a few records."""
    packed = bundle.unpack(RECORDINGS / "runs/defects.tar.xz")
    evidence = json.loads(packed["evidence.json"])
    evidence["builds"], evidence["observations"] = evidence["builds"][2:3], evidence["observations"][:60:20]
    if evidence["schema"] == legacy.EVIDENCE_V1:
        for observation in evidence["observations"]:
            observation.update(attempt=1, isolation=None, jit=[])
        evidence.update(attempts=[], shard=None, schema="evidence-v2")
    plan = json.loads(packed["plan.json"])
    for key in ("checks", "excluded", "workloads", "descriptions"):
        plan[key] = plan[key][:1]
    small = {"evidence.json": json.dumps(evidence).encode(), "plan.json": json.dumps(plan).encode(), "artifacts/a.log": b"log\n"}
    members = tuple(member_of(name, data) for name, data in sorted(small.items()))
    return {MANIFEST: codec.encode(Manifest(files=members)), **dict(sorted(small.items()))}


def run_reader(run: dict[str, bytes]) -> Reader:
    """Verify a run with one damaged file. Without a damaged manifest, every file that is read must be unchanged."""

    def read(data: bytes) -> object:
        name, _, content = data.partition(b"\n")
        damaged = {**run, name.decode(): content}
        return verify_files(damaged[MANIFEST], set(damaged) - {MANIFEST}, damaged.__getitem__, where="run")

    def wrong(_: bytes, damaged: bytes, found: object) -> str | None:
        changed = isinstance(found, dict) and any(found[name] != run[name] for name in found)
        return "altered evidence was taken" if changed and not damaged.startswith(MANIFEST.encode()) else None

    corpus = [name.encode() + b"\n" + data for name, data in run.items()]
    return Reader(corpus=corpus, read=read, promised=(EvidenceError, KeyError, UnicodeDecodeError), wrong=wrong)


def through(file: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Make a reader of bytes from a reader of files."""
    return lambda data: (file.write_bytes(data), read(file))[1]


def result_reader(folder: Path) -> Reader:
    """Read a worker's result. Readings are numbers or Missing."""
    outcome = {"readings": {"diff/max": 0.1, "error/ratio": "nan", "finite/bad-values": 0}, "notes": ["n"], "seconds": 1.0}
    whole = {"schema": "result-v1", "kind": "correctness", "nonce": "n", "job": "j", "environment": {"torch": "2"}}
    whole |= {"started": None, "finished": True, "outcomes": {"w": outcome}}

    def read(path: Path) -> object:
        content = child.read_result(path, kind="correctness", nonce="n", job="j", began=0.0)
        for one in {} if isinstance(content, Missing) else content["outcomes"].values():
            child.missing_from(one)
            correctness.readings(one.get("readings", {}))
        return content

    return Reader(corpus=[json.dumps(whole).encode()], read=through(folder / "result.json", read))


def readers(folder: Path, reports: Reports) -> dict[str, Reader]:
    """Return every reader of foreign files."""
    run = small_run()
    packed = bundle.pack_files({name: data for name, data in run.items() if name != "plan.json"})
    build_text, suites = files("nvcc/*.txt"), files("gates/smoke.toml", "gates/waivers.toml", folder=ROOT, most=10**6)
    return {
        **{f"sanitizer {check}": sanitizer_reader(check) for check in ("memcheck", "racecheck", "initcheck")},
        "ptxas text": Reader(build_text, lambda data: nvcc.parse_resources(text(data)), (ValueError,)),
        "compiler errors": Reader(build_text, lambda data: (nvcc.first_error(text(data)), nvcc.link_error(text(data), "l"))),
        "compiler's files": Reader(
            corpus=[b"x.o : a.cu \\\n b\\ c.h\n"],
            read=lambda data: (
                nvcc.parse_dependencies(text(data)),
                nvcc.parse_host_code(text(data), {"a.cu"}.__contains__, "_m"),
            ),
        ),
        "nvdisasm JSON": Reader(files("nvcc/*.json", most=10**6), lambda data: nvdisasm.parse(text(data)), (ValueError,)),
        "cubin": Reader(corpus=files("nvcc/*.cubin", most=10**6), read=lambda data: elf.read(data, "_m"), promised=(ValueError,)),
        "evidence": Reader([run["evidence.json"]], lambda data: codec.decode(Evidence, data, where="evidence"), (EvidenceError,)),
        "plan": Reader([run["plan.json"]], lambda data: codec.decode(Plan, data, where="plan"), (EvidenceError,)),
        "run": run_reader(run),
        "bundle": Reader(
            [packed],
            through(folder / "b.tar.xz", bundle.unpack),
            (EvidenceError,),
            wrong=lambda good, damaged, _: None if damaged == good else "a damaged bundle was read",
        ),
        "suite TOML": Reader(suites, through(folder / "suite.toml", lambda file: load(file, root=ROOT)), (SuiteError,)),
        "result file": result_reader(folder),
        "report": Reader([fuzz_report.small_report()], lambda data: codec.decode(Report, data, where="report"), (EvidenceError,)),
        "noise": Reader(
            [path.read_bytes() for path in (ROOT / "gates/noise").glob("*.json")],
            through(folder / "noise.json", lambda file: record_files.read(Noise, file)),
            (EvidenceError,),
        ),
        "packed noise": Reader(
            [lzma.compress(b'{"schema": "noise-v1"}')],
            through(folder / "noise.json.xz", lambda file: record_files.read(Noise, file)),
            (EvidenceError,),
        ),
        "needs": Reader([b'{"a": {"result": "success"}}'], lambda data: job_results(text(data)), (UsageError,)),
        "durations": Reader(
            [b'{"k": {"s": 1.5}}'], through(folder / "d.json", lambda file: Durations(file=file, key="k").load())
        ),
        "ncu report": Reader(corpus=[fuzz_apart.recorded()], read=reports.read, promised=(DiedError,), wrong=fuzz_apart.wrong),
        "sources": Reader(
            corpus=files("kernel/src/*.cu", "kernel/subjects/*.py", folder=ROOT, most=2500),
            read=lambda data: [
                read(text(data))
                for read in (tokens.canonical, tokens.find_problem, python_text.canonical, python_text.find_problem)
            ],
        ),
        **{name: Reader(corpus, read, promised) for name, corpus, read, promised in fuzz_reviewed.readers(folder)},
    }


def fuzz(name: str, reader: Reader, count: int, seed: int) -> tuple[int, list[str]]:
    """Return the number of refused inputs, and the failures."""
    refused, broken = 0, []
    for index in range(count):
        rng = random.Random(f"{seed} {name} {index}")  # noqa: S311 - repeatable, not secret
        good = rng.choice(reader.corpus)
        data = mutated(good, rng)
        signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS)
        try:
            complaint = reader.wrong(good, data, reader.read(data))
        except reader.promised:
            refused += 1
            continue
        except Exception:  # noqa: BLE001 - the fuzzer looks for these
            complaint = traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if complaint is not None:
            KEEP.mkdir(parents=True, exist_ok=True)
            file = KEEP / f"{name.replace(' ', '-')}-{seed}-{index}"
            file.write_bytes(data)
            broken.append(f"{name}, input {index} ({file}): {complaint}")
    return refused, broken


def main() -> int:
    """Divide the inputs among the readers and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="inputs in all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="readers whose names hold this text")
    options = parser.parse_args()
    failures: list[str] = []
    signal.signal(signal.SIGVTALRM, take_too_long)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, contextlib.closing(Reports(Path(folder))) as reports:
        chosen = {name: reader for name, reader in readers(Path(folder), reports).items() if options.only in name}
        limit_memory()
        share = max(1, options.count // len(chosen))
        for name, reader in chosen.items():
            began = time.monotonic()
            refused, broken = fuzz(name, reader, share, options.seed)
            seconds = time.monotonic() - began
            print(f"{name:<20} {share:>9} inputs  {refused:>9} refused  {len(broken):>3} broke  {seconds:8.1f} s", flush=True)
            failures += broken
    print(*failures[:10], f"{share * len(chosen)} inputs, {len(failures)} broke something", sep="\n")
    return int(bool(failures))


if __name__ == "__main__":
    raise SystemExit(main())
