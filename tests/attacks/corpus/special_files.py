"""What is no plain file, where the gate reads one: pipes hang it, devices fill its memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from special_kinds import KINDS, asks

from flashcore_ci.adapters import host, process
from flashcore_ci.bounded import files
from flashcore_ci.build import records
from flashcore_ci.build.cache import Cache
from flashcore_ci.build.library import LinkedLibrary
from flashcore_ci.build.sources import Sources
from flashcore_ci.collect import child
from flashcore_ci.model.noise import Noise
from flashcore_ci.run import calibrate, dossier, reports
from flashcore_ci.run.durations import Durations
from flashcore_ci.store import bundle, record_files
from flashcore_ci.store import run as runs
from flashcore_ci.suite import loader

MOST = 1 << 20
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a worker's result": ("result.json", lambda file: child.read_result(file, kind="k", nonce="n", job="j", began=0.0)),
    "a suite": ("suite.toml", loader.read_document),
    "a bundle": ("run.tar.xz", bundle.unpack),
    "a report": ("report.json", reports.read),
    "a dossier": ("dossier.json", lambda file: reports.read_dossier(file.parent)),
    "a noise model": ("noise.json", lambda file: record_files.read(Noise, file)),
    "a packed noise model": ("noise.json.xz", lambda file: record_files.read(Noise, file)),
    "a record of builds": ("build.json", lambda file: records.read_builds(file.parent)),
    "a cached record": ("k" * 32, lambda file: Cache(folder=file.parent).load(LinkedLibrary, "k" * 32)),
    "a source": ("a.cu", lambda file: Sources(file.parent).bytes_digest(["a.cu"])),
    "a tool's log": ("log", process.read_text),
    "a fact of the host": ("params", host.read_text),
    "a ledger": ("ledger.json", calibrate._read_ledger),
    "a file of a run": ("plan.json", lambda file: runs._read(file.parent, "plan.json", MOST)),
    "durations": ("durations.json", lambda file: Durations(file=file, key="k").load()),
    "a quoted source": ("quoted.cu", lambda file: dossier._lines("quoted.cu", file.parent)),
}


def attempt(reader: str, kind: str) -> Callable[[Path], bool]:
    """True if a byte was asked of the file: a pipe may wait for it, and a device has no end."""

    def fooled(folder: Path) -> bool:
        name, read = READERS[reader]
        target = folder / name
        if reader == "a cached record":
            target.mkdir()
            target /= "record.json"
        KINDS[kind](target)
        return asks(lambda: read(folder / name))

    return fooled


def attack(reader: str, kind: str) -> Attack:
    return Attack(name=f"{kind} as {reader}", attempt=attempt(reader, kind))


def pairs() -> list[tuple[str, str]]:
    return [(reader, kind) for reader in READERS for kind in KINDS if reader != "a quoted source"]


def member(draw: random.Random) -> Attack:
    return attack(*draw.choice(pairs()))


def mutant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files.stat, "S_ISREG", lambda _: True)
    patch.setattr(files.os, "O_NOFOLLOW", 0)


CLASS = AttackClass(name="special files", attacks=tuple(attack(*pair) for pair in pairs()[::3]), member=member, mutant=mutant)
