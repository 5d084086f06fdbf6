"""A raw control character that reaches a terminal or a report."""

from __future__ import annotations

import contextlib
import io
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from golden.dossiers import DOSSIER
from golden.reports import RED
from suite_texts import GATE, WHOLE, WITHOUT_GATES

from flashcore_ci.cli import main
from flashcore_ci.report import formatting, junit, markdown, terminal
from flashcore_ci.report.html import markup
from flashcore_ci.run import reports, streams
from flashcore_ci.store import codec

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0001-\U000e007f]")
NASTY = ("\x9b31m", "\u202e", "\u2066", "\x84", "\u200b", "\U000e0041", "\u061c", "\x7f")
LITERAL = {"schema", "kind"}


def _texts(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each text in a record that a file may hold."""
    if isinstance(record, str) and not isinstance(record, Enum):
        yield path
    elif is_dataclass(record):
        for field in fields(record):
            if field.name not in LITERAL:
                yield from _texts(getattr(record, field.name), (*path, field.name))
    elif isinstance(record, tuple):
        for index, item in enumerate(record):
            yield from _texts(item, (*path, index))


def _put(record: Any, path: tuple[Any, ...], text: str) -> Any:
    if not path:
        return f"{record}{text}"
    first, *rest = path
    if isinstance(record, tuple):
        return (*record[:first], _put(record[first], tuple(rest), text), *record[first + 1 :])
    return replace(record, **{first: _put(getattr(record, first), tuple(rest), text)})


IN_REPORT = [path for path in _texts(RED) if "as_of" not in path and "collected_at" not in path and "expires" not in path]
IN_DOSSIER = list(_texts(DOSSIER))


def _report(path: tuple[Any, ...], text: str) -> Attack:
    def attempt(_: Path) -> bool:
        report = _put(RED, path, text)
        made = [terminal.render(report, width=100, color=False)]
        made += [
            data if isinstance(data, str) else data.decode()
            for data in (form(report, DOSSIER) for form in reports.PRINTABLE.values())
        ]
        return any(FORBIDDEN.search(text) for text in made)

    return Attack(name=f"report: {text!r} in {path}", attempt=attempt)


def _dossier(path: tuple[Any, ...], text: str) -> Attack:
    def attempt(_: Path) -> bool:
        dossier = _put(DOSSIER, path, text)
        made = [reports.FORMATS[name](RED, dossier) for name in ("dossier.json", "report.html", "results.sarif", "comment.md")]
        return any(FORBIDDEN.search(data if isinstance(data, str) else data.decode()) for data in made)

    return Attack(name=f"dossier: {text!r} in {path}", attempt=attempt)


def _said(*arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        main.run(arguments)
    return out.getvalue() + err.getvalue()


def _command(name: str, *arguments: str) -> Attack:
    return Attack(name=f"command: {name}", attempt=lambda _: bool(FORBIDDEN.search(_said(*arguments))))


def _suite(name: str, text: str) -> Attack:
    def attempt(folder: Path) -> bool:
        (folder / "scale.py").write_text("from elsewhere import *\n")
        (folder / "suite.toml").write_text(text)
        with contextlib.chdir(folder):
            return bool(FORBIDDEN.search(_said("explain", "finite", "--suite", "suite.toml")))

    return Attack(name=f"suite: {name}", attempt=attempt)


def _stream(name: str, *chunks: str) -> Attack:
    def attempt(_: Path) -> bool:
        shown = io.StringIO()
        guarded = streams.GuardedStream(shown, github=False)
        for chunk in chunks:
            guarded.write(chunk)
        return bool(FORBIDDEN.search(shown.getvalue()))

    return Attack(name=f"stream: {name}", attempt=attempt)


def member(numbers: random.Random) -> Attack:
    """Put a control character into any text of a report or a dossier, or write it."""
    text = numbers.choice(NASTY)
    makers: tuple[Callable[[], Attack], ...] = (
        lambda: _report(numbers.choice(IN_REPORT), text),
        lambda: _dossier(numbers.choice(IN_DOSSIER), text),
        lambda: _stream(repr(text), "a" * numbers.randrange(9), text),
    )
    return numbers.choice(makers)()


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pass every character on."""
    monkeypatch.setattr(streams, "visible", lambda text: text)
    monkeypatch.setattr(formatting, "_escape_unprintable", lambda text: text)
    for module, name in ((formatting, "printable"), (formatting, "clean_lines"), (junit, "_clean"), (markdown, "prose")):
        monkeypatch.setattr(module, name, getattr(module, name).__wrapped__)  # it remembers what was escaped
    monkeypatch.setattr(markup, "text", lambda plain: plain.translate(markup.ESCAPES))
    monkeypatch.setattr(codec, "UNSEEN", re.compile("(?!)"))


CLASS = AttackClass(
    name="a control character is shown",
    attacks=(
        _stream("a cursor movement", "\x1b[2J"),
        _stream("a title of the terminal", "\x1b]0;PASS\x07"),
        _stream("C1", "\x9b31m"),
        _stream("a lone carriage return", "FAIL\rPASS"),
        _stream("a backspace", "FAIL\b\b\b\bPASS"),
        _stream("text that runs backwards", "\u202eSSAP"),
        _stream("an isolate", "\u2067x\u2069"),
        _stream("an invisible space", "PA\u200bSS"),
        _stream("a line separator", "a\u2028b"),
        _stream("a tag character", "\U000e0041"),
        _stream("in two parts", "\x1b", "[2J"),
        _command("an unknown gate", "explain", "gate\x1b]0;x\x07"),
        _command("a missing suite", "explain", "finite", "--suite", "gates/\u202etxt.toml"),
        _command("a folder without a report", "report", "runs/\x9b2J"),
        _suite("the name of a gate", WITHOUT_GATES + GATE.replace('"finite"', '"fin\\u009bite"')),
        _suite("the owner of a gate", WITHOUT_GATES + GATE.replace('"kernels"', '"ker\\u202enels"')),
        _suite("an unknown key", f'"a\\u0007b" = 1\n{WHOLE}'),
        _suite("an unknown metric", WITHOUT_GATES + GATE.replace("finite/bad-values", "finite\\u202e")),
        _suite("an unknown subject", WHOLE.replace('subject = "scale"', 'subject = "sc\\u200fale"')),
        _report(("verdicts", 0, "reason", "message"), "\u202e"),
        _report(("headline",), "\x9b2J"),
        _report(("suite",), "\u2066"),
        _report(("verdicts", 0, "target"), "\x84"),
        _report(("verdicts", 0, "unit"), "\u202e"),
        _dossier(("workloads", 0, "id"), "\u202e"),
        _dossier(("suite_file",), "\u2067"),
    ),
    member=member,
    mutant=mutant,
)
