"""A sanitizer says that it may have missed something, in words or in a shape that the gate does not know."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.adapters import sanitizer, sanitizer_log
from flashcore_ci.model.metrics import SANITIZER_TOOLS
from flashcore_ci.model.reading import Measured

PREFIX = "========= "
HEADER = "COMPUTE-SANITIZER"
TABLE = Path(__file__).parents[2] / "recordings/sanitizer/sentences.tsv"
SENTENCES = [line.split("\t")[1] for line in TABLE.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
LEVELS = ("", "Warning: ", "Error: ", "Info: ", "Internal Sanitizer Error: ", "Fatal: ", "Note: ")


def summary(check: str) -> str:
    return "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" if check == "racecheck" else "ERROR SUMMARY: 0 errors"


def attack(name: str, check: str, text: str) -> Attack:
    def attempt(_: Path) -> bool:
        log = sanitizer_log.parse(text, check)
        return sanitizer.read_findings(log, returncode=0, version="2026.4.0.0", ran=True) == Measured(value=0.0, unit="count")

    return Attack(name=name, attempt=attempt)


def log(check: str, *lines: str, before: str = PREFIX) -> str:
    """A clean log with these lines between header and summary."""
    return "".join(f"{line}\n" for line in (PREFIX + HEADER, *(before + line for line in lines), PREFIX + summary(check)))


def says(name: str, check: str, *lines: str) -> Attack:
    return attack(name, check, log(check, *lines))


LAUNCH = ("Launch #1", "  Kernel: k", "  Grid:   (1, 1, 1)", "  Block:  (1, 1, 1)", "  Stream: 0x0", "")
SUMMARY = PREFIX + summary("memcheck")
ATTACKS = (
    says("its table of barriers is full", "racecheck", "Warning: Detected overflow of tracked cuda::barrier structures. Results might be incorrect. Try using --num-cuda-barriers to fix the issue"),
    says("its table of barriers is full under synccheck", "synccheck", "Warning: Detected overflow of tracked cuda::barrier structures. Results might be incorrect. Try using --num-cuda-barriers to fix the issue"),
    says("its buffer of errors is full", "memcheck", "Warning: Error buffer overflow has been detected. Some records have been dropped"),
    says("it skipped errors in a summary", "memcheck", "ERROR SUMMARY: 3 errors were skipped (error buffer overflow)."),
    says("it did not track a launch", "initcheck", "Warning: Detected a failure to track a kernel launch. Future records might be incomplete"),
    says("it stopped counting hazards", "racecheck", "Warning: Maximum number of hazards reached. Environment variable NV_COMPUTE_SANITIZER_MAX_RACECHECK_HAZARDS can be used to increase this count."),
    says("it stopped counting hazards per multiprocessor", "racecheck", "Try using --racecheck-num-hazards to increase the max hazards number per SM (see Racecheck Memory Print section of the documentation)"),
    says("it printed a part of its records", "racecheck", "Warning: Not all records were printed (see Racecheck Severity Level section of the documentation)"),
    says("it came too late", "memcheck", "Warning: CUDA initialized before the Sanitizer. The Sanitizer will be disabled"),
    says("the GPU cannot be debugged", "memcheck", "Warning: GPU debugging features are disabled. Please consult the list of supported CUDA devices for more details."),
    says("the GPU computes confidentially", "synccheck", "Warning: Confidential compute mode detected. compute-sanitizer will be disabled."),
    says("a kernel launches kernels", "initcheck", "Warning: CUDA Dynamic Parallelism is not supported by the selected tool"),
    says("the driver is too old", "memcheck", "Warning: Detected an unsupported driver version. Please update your CUDA installation to 13.0 or newer (driver version 580 or higher)"),
    says("it gave up on a barrier", "racecheck", "Warning: Detected possible deadlock in synchronization call. If you think this might be a false positive, try increasing a deadlock timeout with --racecheck-deadlock-timeout or disabling it by setting timeout to 0."),
    says("it has options that the target ignores", "memcheck", "Some options are not supported by the target"),
    says("its records are of an unknown kind", "memcheck", "Unknown record type 77"),
    says("it suppressed a record", "memcheck", "Record was suppressed"),
    says("its module was not patched", "memcheck", "Module is patched by compiler, skipping memory access patches"),
    says("it has leaks", "memcheck", "LEAK SUMMARY: 1024 bytes leaked in 1 allocations"),
    says("a next version says it in new words", "racecheck", "Notice: 3 of 8 async proxies were beyond the tracker's capacity"),
    says("a line without a verb", "racecheck", "partial coverage"),
    says("a detail that belongs to no finding", "memcheck", "    by thread (0,0,0) in block (0,0,0)"),
    says("a launch list in place of a check", "memcheck", *LAUNCH),
    says("a sentence hidden in a launch list", "memcheck", *LAUNCH[:3], "  Coverage: partial", *LAUNCH[3:]),
    says("a summary between two summaries", "racecheck", "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"),
    says("a second header", "memcheck", HEADER),
    says("a carriage return that hides a sentence", "memcheck", "Warning: coverage is partial\r" + " " * 60),
    says("a terminal's escape that hides a sentence", "memcheck", "\x1b[8mcoverage is partial\x1b[0m"),
    attack("output of the target between the lines", "memcheck", log("memcheck", "coverage is partial", before="")),
    attack("a shorter prefix", "memcheck", log("memcheck", "coverage is partial", before="=== ")),
    attack("an empty line without a prefix", "memcheck", f"{PREFIX}{HEADER}\n\n{SUMMARY}\n"),
    attack("no header", "memcheck", f"{SUMMARY}\n"),
    attack("text before the header", "memcheck", f"{PREFIX}partial coverage\n{PREFIX}{HEADER}\n{SUMMARY}\n"),
    attack("text after the summary", "memcheck", f"{PREFIX}{HEADER}\n{SUMMARY}\n{PREFIX}partial coverage\n"),
    attack("cut after the summary's last letter", "memcheck", f"{PREFIX}{HEADER}\n{SUMMARY}"),
    attack("two logs in one file", "synccheck", log("synccheck") * 2),
    attack("a sentence of 100,000 letters", "memcheck", log("memcheck", "x" * 100_000)),
)  # fmt: skip


def member(numbers: random.Random) -> Attack:
    """Insert a line that the tool, another tool, or nobody has ever written, anywhere in a clean log."""
    check = numbers.choice(SANITIZER_TOOLS)
    words = " ".join(
        "".join(numbers.choices("abcdefghijklmnopqrstuvwxyz", k=numbers.randint(2, 9))) for _ in range(numbers.randint(1, 8))
    )
    line = numbers.choice(LEVELS) + numbers.choice((numbers.choice(SENTENCES), words, f"{numbers.randint(0, 99)} {words}"))
    prefix = numbers.choice((PREFIX, PREFIX, PREFIX, "", "=========     ", "======== "))
    lines = log(check).splitlines(keepends=True)
    lines.insert(numbers.randint(0, len(lines)), f"{prefix}{line}\n")
    return attack(f"{check}: {line[:60]!r}", check, "".join(lines))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know no allow-list, and only the words that a kernel engineer thought of."""
    monkeypatch.setattr(sanitizer_log, "_read_lines", lambda *_: ())
    monkeypatch.setattr(sanitizer_log, "LOST_TRACK", ())
    monkeypatch.setattr(sanitizer_log, "TARGET_DIED", ())
    monkeypatch.setattr(sanitizer_log, "NOT_INSTRUMENTED", ())


CLASS = AttackClass(name="a sanitizer that lost track reads as clean", attacks=ATTACKS, member=member, mutant=mutant)
