"""A statement of something else next to good evidence, or good statements next to other evidence."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from evidence_factories import good_evidence
from factories import make_plan

from flashcore_ci.model.errors import FlashcoreError
from flashcore_ci.run import statement as check
from flashcore_ci.store import statement as statements
from flashcore_ci.store.run import pack, prepare_run, write_run

HERE = "https://github.com/flashcore/flashcore-ci/actions/runs/12"
OTHER = HERE[:-2] + "13"
GOOD = good_evidence(make_plan())
Forge = Callable[[dict[str, Any]], object]


@cache
def _packed(**provenance: Any) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        plan, folder, file = make_plan(), Path(name) / "run", Path(name) / "run.tar.xz"
        prepare_run(folder, plan)
        write_run(folder, plan, replace(GOOD, provenance=replace(GOOD.provenance, **provenance)))
        pack(folder, file)
        return file.read_bytes()


def _run(file: Path, **provenance: Any) -> Path:
    """Write a packed run."""
    file.write_bytes(_packed(**provenance))
    return file


def _accepts(run: Path, given: bytes) -> bool:
    file = run.with_suffix(".json")
    file.write_bytes(given)
    try:
        check.demand(run, file, invocation=HERE)
    except FlashcoreError:
        return False
    return True


def _attack(name: str, forge: Forge) -> Attack:
    """Change the content of the right statement."""

    def attempt(folder: Path) -> bool:
        run = _run(folder / "run")
        content = json.loads(check.expected(run, invocation=HERE))
        forge(content)
        return _accepts(run, (json.dumps(content, indent=1, sort_keys=True) + "\n").encode())

    return Attack(name=name, attempt=attempt)


def _bytes(name: str, forge: Callable[[bytes], bytes]) -> Attack:
    """Change the bytes of the right statement."""

    def attempt(folder: Path) -> bool:
        run = _run(folder / "run")
        return _accepts(run, forge(check.expected(run, invocation=HERE)))

    return Attack(name=name, attempt=attempt)


def _replayed(name: str, **provenance: Any) -> Attack:
    """Give the statement of another run that was signed."""

    def attempt(folder: Path) -> bool:
        other = check.expected(_run(folder / "other", **provenance), invocation=HERE)
        return _accepts(_run(folder / "run"), other)

    return Attack(name=name, attempt=attempt)


def _subject(name: str, **digest: str) -> Forge:
    def forge(content: dict[str, Any]) -> None:
        next(each for each in content["subject"] if each["name"].startswith(name))["digest"] = digest

    return forge


def _material(number: int) -> Forge:
    return lambda content: content["predicate"]["materials"][number]["digest"].update(sha256="0" * 64)


def _predicate(name: str, value: Any) -> Forge:
    return lambda content: content["predicate"].update({name: value})


def _of_another_run(folder: Path) -> bool:
    run = _run(folder / "run")
    return _accepts(run, check.expected(run, invocation=OTHER))


def _is_link(folder: Path) -> bool:
    run = _run(folder / "run")
    (folder / "right.json").write_bytes(check.expected(run, invocation=HERE))
    (folder / "link.json").symlink_to(folder / "right.json")
    try:
        check.demand(run, folder / "link.json", invocation=HERE)
    except FlashcoreError:
        return False
    return True


ATTACKS = (
    _attack("another bundle", _subject("bundle", sha256="0" * 64)),
    _attack("another commit", _subject("commit", gitCommit="f" * 40)),
    _attack("a commit under another algorithm", _subject("commit", sha256="0" * 64)),
    _attack("another plan", _subject("plan.json", sha256="0" * 64)),
    _attack("another evidence", _subject("evidence.json", sha256="0" * 64)),
    _attack("another manifest", _subject("manifest.json", sha256="0" * 64)),
    _attack("another library", _subject("build/", library="0" * 64)),
    _attack("another machine code", _subject("entry/", machineCode="0" * 64)),
    _attack("one subject less", lambda content: content["subject"].pop()),
    _attack("no subjects", lambda content: content["subject"].clear()),
    _attack("one subject more", lambda content: content["subject"].append({"name": "x", "digest": {"sha256": "0" * 64}})),
    _attack("subjects in another order", lambda content: content["subject"].reverse()),
    _attack("another toolchain", _material(0)),
    _attack("another suite", _material(1)),
    _attack("no materials", _predicate("materials", [])),
    _attack("another suite's name", _predicate("suite", {"name": "easy", "file": "gates/easy.toml"})),
    _attack("another version of the tool", _predicate("tool", {"name": "flashcore-ci", "version": "9.9"})),
    _attack("another GPU", _predicate("device", None)),
    _attack("another day", _predicate("collectedAt", "2030-01-01T00:00:00Z")),
    _attack("no local changes", _predicate("dirty", 0)),
    _attack("one word more", _predicate("verdict", "PASS")),
    _attack("an old kind of statement", lambda content: content.update(_type="https://in-toto.io/Statement/v0.1")),
    _attack("another kind of predicate", lambda content: content.update(predicateType="https://slsa.dev/provenance/v1")),
    _bytes("a key twice", lambda right: right.replace(b'"predicateType"', b'"predicateType": "x",\n "predicateType"', 1)),
    _bytes("a blank at the end", lambda right: right + b" "),
    _bytes("another statement behind it", lambda right: right + right),
    _bytes("the same in one line", lambda right: json.dumps(json.loads(right)).encode()),
    _bytes("an escaped letter", lambda right: right.replace(b'"bundle"', b'"\\u0062undle"')),
    _bytes("a byte order mark", lambda right: b"\xef\xbb\xbf" + right),
    _bytes("nothing", lambda _: b""),
    _bytes("not a statement", lambda _: b"[]"),
    _bytes("deeply nested", lambda _: b"[" * 100_000),
    _replayed("of another commit that was green", commit="f" * 40),
    _replayed("of a run with local changes", dirty=True),
    _replayed("of a run on another day", collected_at="2026-11-20T08:00:00Z"),
    Attack(name="of another run of the workflow", attempt=_of_another_run),
    Attack(name="a link to the right one", attempt=_is_link),
)


def _member(numbers: random.Random) -> Attack:
    """Change one byte, or one digit of a digest, of the right statement."""
    place, byte = numbers.random(), numbers.randrange(256)

    def forge(right: bytes) -> bytes:
        at = int(place * len(right))
        return right[:at] + bytes([byte if byte != right[at] else byte ^ 1]) + right[at + 1 :]

    return _bytes(f"byte {byte} at {place:.6f}", forge)


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "differences", lambda *_: ())
    monkeypatch.setattr(check, "read", lambda file: file.read_bytes())


CLASS = AttackClass(name="statement forged", attacks=ATTACKS, member=_member, mutant=_mutant)
