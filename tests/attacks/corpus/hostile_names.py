"""Names and messages from files reach a shell's completion, or the JSON of a command."""

from __future__ import annotations

import json
import random
from pathlib import Path

import click
import pytest
from attacking import Attack, AttackClass

from flashcore_ci.cli import answers, completion
from flashcore_ci.run import completion as found
from flashcore_ci.suite.project import read_project

NASTY = ("\x1b[2J", "\x1b]0;PASS\x07", "\x9b31m", "\u202e", "\u2028", "\u200b", "\x7f", "\udc80")
SHELL = (
    "a\nplain,rm",
    "a$(touch x)",
    "a`id`",
    "a;rm",
    "a b",
    "a'b",
    'a"b',
    "a|b",
    "a&b",
    "a>b",
    "a\\b",
    "a,b",
    "a\tb",
    "~root",
    "a:b",
)


def completes(text: str) -> Attack:
    """Make an attack of a gate's name. It is fooled if the name is offered."""

    def attempt(folder: Path) -> bool:
        document = f"[[gate]]\nid = {json.dumps(text)}\n"
        if "\ud800" <= text[-1] <= "\udfff" or any("\ud800" <= c <= "\udfff" for c in text):
            return bool(completion._items([text], ""))
        (folder / "tiny.toml").write_text(document, encoding="utf-8")
        return bool(completion._items(found.names(folder / "tiny.toml"), ""))

    return Attack(name=f"completion of {text!r}", attempt=attempt)


def prints(text: str, kind: str) -> Attack:
    """Make an attack of text in an answer. It is fooled if the output holds the text as it is."""

    def attempt(folder: Path) -> bool:
        shown: list[str] = []
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(click, "echo", lambda message="", **_: shown.append(str(message)))
            if kind == "error":
                answers.fail("x", "y", 2, as_json=True)
                shown.clear()
                answers.print_json({"error": text, "fix": text, "exit_code": 2})
            else:
                answers.finish({kind: [text], text: {"x": text}}, 0, as_json=True)
        out = "\n".join(shown)
        lines = out.splitlines()
        return (
            not out.isascii() or any(line.lstrip().startswith(("::", "##[")) for line in lines) or "\x1b" in out or "\x7f" in out
        )

    return Attack(name=f"JSON of {text!r} as {kind}", attempt=attempt)


def configures(text: str) -> Attack:
    """Make an attack of a path in pyproject.toml. It is fooled if the path is taken."""

    def attempt(folder: Path) -> bool:
        (folder / "pyproject.toml").write_text(f"[tool.flashcore-ci]\nsuite = {json.dumps(text)}\n", encoding="utf-8")
        try:
            return str(read_project(folder).path_of("suite")) == text
        except Exception:  # noqa: BLE001 - refused
            return False

    return Attack(name=f"pyproject.toml with {text!r}", attempt=attempt, mutated=False, proof="a path in quotes is needed")


ATTACKS = (
    *(completes(f"a{text}b") for text in NASTY),
    *(completes(text) for text in SHELL),
    *(prints(f"a{text}b", kind) for text in NASTY if text != "\x7f" for kind in ("error", "summary")),
    *(configures(f"a{text}b") for text in NASTY if not "\ud800" <= text <= "\udfff"),
)


def member(numbers: random.Random) -> Attack:
    """Put a hostile character anywhere into a name."""
    text = "a" * numbers.randrange(1, 20) + numbers.choice(NASTY[:6]) + "b" * numbers.randrange(5)
    return completes(text) if numbers.random() < 0.5 else prints(text, "summary")


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offer and print everything as it is."""
    monkeypatch.setattr(completion, "_items", lambda names, _: list(names))
    monkeypatch.setattr(answers, "print_json", lambda value: click.echo("\n".join(f"{k}: {v}" for k, v in _flat(value))))


def _flat(value: object) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [(str(key), text) for key, inner in value.items() for _, text in _flat(inner)] + [(str(key), "") for key in value]
    return [("", text) for inner in value for _, text in _flat(inner)] if isinstance(value, list) else [("", str(value))]


CLASS = AttackClass(name="hostile names in completion and JSON", attacks=ATTACKS, member=member, mutant=mutant)
