"""A reader that goes away turns a verdict into a crash, or a red into something else."""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.cli import main
from flashcore_ci.run import streams


@contextlib.contextmanager
def _without_reader(*names: str) -> Iterator[None]:
    """Let these streams write into a pipe that nothing reads."""
    before = {name: getattr(sys, name) for name in names}
    for name in names:
        reader, writer = os.pipe()
        os.close(reader)
        setattr(sys, name, os.fdopen(writer, "w", encoding="utf-8"))
    try:
        yield
    finally:
        for name, stream in before.items():
            with contextlib.suppress(OSError):
                getattr(sys, name).close()
            setattr(sys, name, stream)


def _command(name: str, status: int, lost: tuple[str, ...], *arguments: str) -> Attack:
    def attempt(_: Path) -> bool:
        nothing = io.StringIO()
        with contextlib.redirect_stdout(nothing), contextlib.redirect_stderr(nothing), _without_reader(*lost):
            try:
                return main.run(arguments) != status
            except (OSError, SystemExit):
                return True

    return Attack(name=f"{name}, without {' and '.join(lost)}", attempt=attempt)


def _stream(name: str, *chunks: str, flush: bool = True) -> Attack:
    def attempt(_: Path) -> bool:
        with _without_reader("stdout"):
            guarded = streams.GuardedStream(sys.stdout, github=False)
            try:
                for chunk in chunks:
                    guarded.write(chunk)
                    if flush:
                        guarded.flush()
                guarded.flush()
                guarded.buffer.write(b"more")
                guarded.flush()
            except OSError:
                return True
            return False

    return Attack(name=f"stream: {name}", attempt=attempt)


OUT, ERR, BOTH = ("stdout",), ("stderr",), ("stdout", "stderr")


def member(numbers: random.Random) -> Attack:
    """Write any amount in any pieces after the reader is gone."""
    chunks = ["x" * numbers.randrange(1, 20_000) for _ in range(numbers.randrange(1, 6))]
    return _stream(f"{[len(chunk) for chunk in chunks]}", *chunks, flush=numbers.random() < 0.5)


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the error of a closed pipe end the command, as before."""
    monkeypatch.setattr(streams.GuardedStream, "_try", lambda _, action: action())


CLASS = AttackClass(
    name="the reader of the output goes away",
    attacks=(
        _command("a reason code", 0, OUT, "explain", "over-limit"),
        _command("a reason code", 0, BOTH, "explain", "over-limit"),
        _command("help", 0, OUT, "--help"),
        _command("the version", 0, OUT, "--version"),
        _command("help of a command", 0, BOTH, "gate", "--help"),
        _command("a wrong option", 2, ERR, "gate", "--wrong"),
        _command("a wrong command", 2, BOTH, "gat"),
        _command("a suite that is not there", 3, ERR, "plan", "--suite", "nowhere.toml"),
        _command("a run that is not there", 4, ERR, "report", "nowhere"),
        _command("a run that is not there", 4, BOTH, "judge", "nowhere.tar.xz", "--out", "/proc/nowhere"),
        _stream("one line", "a\n"),
        _stream("many lines", *("a\n",) * 99),
        _stream("more than a buffer", "x" * 100_000),
        _stream("several buffers without a flush", *("x" * 9_000,) * 9, flush=False),
        _stream("an end without a flush", "x", flush=False),
    ),
    member=member,
    mutant=mutant,
)
