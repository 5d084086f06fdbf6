"""A line of a file that GitHub takes for a command or for an output of the step."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import random
import re
import types
from pathlib import Path

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.run import streams

ACTION = Path(__file__).parents[3] / ".github/actions/run.py"
LINE = re.compile(r"\r\n|\r|\n")
OUTPUTS = ("verdict", "exit-code", "reports", "evidence")
COMMANDS = ("error", "warning", "add-mask", "set-output name=verdict", "stop-commands", "group", "set-env name=PATH", "debug")


def _load() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("attacked_action", ACTION)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUN = _load()


def _is_command(text: str) -> bool:
    """Read lines as GitHub's runner does."""
    return any(line.lstrip().startswith("::") or "##[" in line for line in LINE.split(text))


def _stream(name: str, *chunks: str) -> Attack:
    def attempt(_: Path) -> bool:
        log = io.StringIO()
        guarded = streams.GuardedStream(log, github=True)
        for chunk in chunks:
            guarded.write(chunk)
        return _is_command(log.getvalue())

    return Attack(name=f"log: {name}", attempt=attempt)


def _bytes(name: str, data: str) -> Attack:
    def attempt(_: Path) -> bool:
        log = io.StringIO()
        streams.GuardedStream(log, github=True).buffer.write(data.encode())
        return _is_command(log.getvalue())

    return Attack(name=f"bytes: {name}", attempt=attempt)


def _outcome(outcome: object) -> Attack:
    def attempt(folder: Path) -> bool:
        (folder / "out").mkdir()
        (folder / "out/report.json").write_text(json.dumps({"outcome": outcome}))
        before = os.environ.get("GITHUB_OUTPUT")
        os.environ["GITHUB_OUTPUT"] = str(folder / "outputs")
        try:
            RUN._write_outputs({"out": str(folder / "out")}, Path("tool"), 0, is_new=True)
        finally:
            os.environ.pop("GITHUB_OUTPUT")
            if before is not None:
                os.environ["GITHUB_OUTPUT"] = before
        lines = (folder / "outputs").read_text().splitlines()
        names = tuple(line.partition("=")[0] for line in lines)
        return names != OUTPUTS or lines[0] not in {"verdict=PASS", "verdict=FAIL", "verdict=INCONCLUSIVE"}

    return Attack(name=f"output: {outcome!r}", attempt=attempt)


def member(numbers: random.Random) -> Attack:
    """Begin a line with a command after any blanks, in any pieces."""
    command = numbers.choice(COMMANDS)
    blank = "".join(numbers.choices(" \t\u00a0\u2003\u3000", k=numbers.randrange(4)))
    text = numbers.choice(
        (f"{blank}::{command}::x\n", f"{'a' * numbers.randrange(3)}##[{command}]x\n", f"a\n{blank}::{command}::")
    )
    if numbers.random() < 0.3:
        return _outcome(f"PASS\n{numbers.choice(OUTPUTS)}={numbers.randrange(99)}")
    cuts = sorted(numbers.choices(range(len(text)), k=numbers.randrange(4)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return _bytes(text, text) if numbers.random() < 0.5 else _stream(repr(pieces), *pieces)


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write lines and outcomes as they come."""
    monkeypatch.setattr(streams, "inert", lambda text: text)
    monkeypatch.setattr(streams, "visible", lambda text: text)
    monkeypatch.setattr(RUN, "_verdict", lambda out: str(json.loads((out / "report.json").read_bytes())["outcome"]))


CLASS = AttackClass(
    name="a command for GitHub in a file",
    attacks=(
        _stream("a command", "::error::x\n"),
        _stream("after blanks", " \t ::add-mask::x\n"),
        _stream("in the second line", "a\n::stop-commands::x\n"),
        _stream("after a lone carriage return", "a\r::set-output name=verdict::PASS\n"),
        _stream("in two pieces", ":", ":error::x\n"),
        _stream("in three pieces", " ", ":", ":error::x\n"),
        _stream("letter by letter", *"::warning::x\n"),
        _stream("after a blank without a break", "\u00a0::error::x\n"),
        _stream("after a wide blank", "\u3000::error::x\n"),
        _stream("the old form", "a ##[set-output name=verdict]PASS\n"),
        _stream("the old form in two pieces", "a #", "#[error]x\n"),
        _stream("the old form after a hash", "###[error]x\n"),
        _stream("without an end of line", "::debug::x"),
        _stream("after a long line in pieces", "a" * 200, "##", "[error]x\n"),
        _bytes("a command in a report", "::error::x\n"),
        _bytes("the old form in JSON", '{"a": "##[error]x"}\n'),
        _bytes("after a line separator", "a\n\u2003::error::x\n"),
        *map(
            _outcome,
            ("PASS\nverdict=PASS", "PASS\r\nevidence=/etc/passwd", "WAIVED", "", "pass", 1, ["PASS"], {"PASS": 1}, "PASS\n"),
        ),
        _outcome("PASS\nexit-code<<X\n0\nX"),
    ),
    member=member,
    mutant=mutant,
)
