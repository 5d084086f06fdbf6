"""A run that nobody signed for the protected branch feeds detection, or replaces one that does."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from evidence_factories import make_provenance
from history_factories import PLAN, evidence_of

from flashcore_ci.adapters import git
from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.model.history import Standing
from flashcore_ci.run import history
from flashcore_ci.run import statement as statements
from flashcore_ci.store.run import pack, prepare_run, write_run

RUN = "https://github.com/OWNER/flashcore-ci/actions/runs/1/attempts/1"
LINE = tuple(git.Logged(sha=f"{number:040x}", parent="", at=number, subject="x") for number in (3, 2, 1))
GOOD = LINE[1].sha


@cache
def _packed(**provenance: object) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder, file = Path(name) / "run", Path(name) / "run.tar.xz"
        prepare_run(folder, PLAN)
        write_run(folder, PLAN, replace(evidence_of(), provenance=make_provenance(**{"commit": GOOD, **provenance})))
        pack(folder, file)
        return file.read_bytes()


def _feeds(folder: Path, provenance: dict[str, object], forge: Callable[[bytes], bytes], invocation: str = RUN) -> bool:
    """Tell whether a run with this statement would feed detection."""
    file, given = folder / "run.tar.xz", folder / "statement.json"
    file.write_bytes(_packed(**provenance))
    given.write_bytes(forge(statements.expected(file, invocation=invocation)))
    how = history.Import(db="", environ={}, suite=Path("none"), statements=(given,), protected="main")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(git, "log", lambda *_, **__: LINE)
        try:
            return history._read(file, given, how, folder).standing is Standing.PROTECTED
        except FlashcoreError:
            return False


def _attack(
    name: str, *, forge: Callable[[bytes], bytes] = lambda data: data, invocation: str = RUN, **provenance: object
) -> Attack:
    return Attack(name=name, attempt=lambda folder: _feeds(folder, provenance, forge, invocation))


def _member(numbers: random.Random) -> Attack:
    commit = f"{numbers.getrandbits(160):040x}"
    if numbers.random() < 0.5:
        return _attack(f"commit {commit[:8]} of another branch", commit=commit)
    return _attack(f"a statement of {commit[:8]}", forge=lambda data: data.replace(GOOD.encode(), commit.encode()))


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "demand", lambda *_, **__: None)
    monkeypatch.setattr(history, "_protected_commit", lambda provenance, *_: history.Commit(sha=provenance.commit))


CLASS = AttackClass(
    name="a run that does not count feeds detection",
    attacks=(
        _attack("a commit of another branch", commit="f" * 40),
        _attack("a branch as the commit", commit="main"),
        _attack("the start of a commit", commit=GOOD[:12]),
        _attack("a commit in capitals", commit=f"{'0' * 39}A"),
        _attack("uncommitted changes", dirty=True),
        _attack("no GPU", device=None),
        _attack("no workflow run", invocation=""),
        _attack("an empty statement", forge=lambda _: b""),
        _attack("a cut statement", forge=lambda data: data[:-2]),
        _attack("a statement with a further line", forge=lambda data: data + b"{}\n"),
        _attack("a statement with another digest", forge=lambda data: data.replace(b'"sha256": "', b'"sha256": "0', 1)),
    ),
    member=_member,
    mutant=_mutant,
)
