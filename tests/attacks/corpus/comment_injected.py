"""Text from evidence, other people's comments or a job's outputs that becomes markup, a link, a path or a command."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest
from attacking import Attack, AttackClass
from report_factories import make_report, make_verdict
from scripts import script

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.verdict import Outcome
from flashcore_ci.report import comment as comments
from flashcore_ci.report import formatting, markdown, sarif

program, steps = script("comment"), script("run")
EMPTY = Dossier()
MARKER = "<!-- flashcore-ci: hopper -->"


def _finding(**values: str) -> Any:
    finding = Finding(**{"tool": "memcheck", "message": "m", "file": "kernel/a.cu", "line": 1, **values})
    return make_report([make_verdict(outcome=Outcome.FAIL, findings=(finding,))])


def _comment(name: str, text: str, raw: str) -> Attack:
    """The comment holds ``raw`` if the text of a finding becomes markup."""

    def attempt(_: Path) -> bool:
        return raw in comments.render(_finding(message=text), EMPTY)

    return Attack(name=f"comment: {name}", attempt=attempt)


def _alert(name: str, values: dict[str, str], is_fooled: Callable[[dict[str, Any]], bool]) -> Attack:
    def attempt(_: Path) -> bool:
        (result,) = json.loads(sarif.render(_finding(**values), EMPTY))["runs"][0]["results"]
        return is_fooled(result)

    return Attack(name=f"alert: {name}", attempt=attempt)


def _leaves(result: dict[str, Any]) -> bool:
    return ".." in result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].split("/")


def _links(result: dict[str, Any]) -> bool:
    return "](" in result["message"]["text"]


def _status(name: str, result: str, attempts: str) -> Attack:
    """The line about the required check says what no job said."""

    def attempt(_: Path) -> bool:
        try:
            return bool(program.required(result, attempts))
        except program.RefusedError:
            return False

    return Attack(name=f"status: {name}", attempt=attempt)


def _earlier(name: str, login: str, body: str) -> Attack:
    """Somebody else's comment is taken for ours, and overwritten."""

    def attempt(_: Path) -> bool:
        found = [{"id": 5, "user": {"login": login, "type": "Bot"}, "body": body}]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(program, "pages", lambda *_: iter(found))
            return program.earlier("https://api.github.com/x", MARKER, "token") is not None

    return Attack(name=f"earlier: {name}", attempt=attempt)


def _outcome(name: str, outcome: Any) -> Attack:
    """A report becomes more than one output of the step."""

    def attempt(folder: Path) -> bool:
        (folder / "report.json").write_text(json.dumps({"outcome": outcome}))
        return steps._verdict(folder) not in steps.OUTCOMES

    return Attack(name=f"output: {name}", attempt=attempt)


ATTACKS = (
    _comment("an image", "<img src=https://example.org/x.png>", "<img"),
    _comment("an end of the fold", "</details>", "\n- memcheck: kernel/a.cu:1: </details>"),
    _comment("a second marker", "<!-- flashcore-ci: other -->", "<!-- flashcore-ci: other"),
    _comment("a link", "[approve](https://example.org)", "[approve]("),
    _comment("an image in Markdown", "![x](https://example.org/x.png)", "![x]("),
    _comment("a mention", "@maintainers", "@maintainers"),
    _comment("bold", "**PASS**", "**PASS**"),
    _comment("struck out", "~~FAIL~~", "~~FAIL~~"),
    _comment("a table cell", "a | PASS | b", "a | PASS | b"),
    _comment("a reference", "fixes #1", "fixes #1"),
    _comment("mathematics", "$PASS$", "$PASS$"),
    _alert("a path above the checkout", {"file": "../../etc/passwd"}, _leaves),
    _alert("a path through the checkout", {"file": "kernel/../../x.cu"}, _leaves),
    _alert("an absolute path with a way up", {"file": "/srv/../etc/passwd"}, _leaves),
    _alert("a link in a message", {"message": "[approve](https://example.org)"}, _links),
    _alert("a link to another result", {"message": "see [this](1)"}, _links),
    _status("two results", "success** and **failure", "1"),
    _status("a result with markup", "<b>success</b>", "1"),
    _status("no result", "", "1"),
    _status("another case", "Success", "1"),
    _status("attempts with a line", "success", "1\n# PASS"),
    _status("attempts below zero", "success", "-1"),
    _status("attempts in another script", "success", "²"),
    _status("attempts with markup", "success", "1 [x](y)"),
    _earlier("a person", "somebody", f"{MARKER}\nx"),
    _earlier("another app", "dependabot[bot]", f"{MARKER}\nx"),
    _earlier("an app with a name like ours", "github-actions-x[bot]", f"{MARKER}\nx"),
    _outcome("a second line", "PASS\nevidence=other.tar.xz"),
    _outcome("a delimiter", "PASS<<EOF"),
    _outcome("another word", "WAIVED"),
    _outcome("a list", ["PASS"]),
    _outcome("a number", 1),
)
MARKUP = ("<b>", "<!-- x -->", "[a](b)", "![a](b)", "@team", "**x**", "|a|", "#1", "~~x~~", "$x$", "<script>", "`</details>`")


def _member(numbers: random.Random) -> Attack:
    if numbers.random() < 0.5:
        parts = [numbers.choice(("..", "kernel", "a b", "x.cu")) for _ in range(numbers.randint(1, 6))]
        return _alert("/".join(parts), {"file": "/".join([*parts, "..", "x.cu"])}, _leaves)
    text = numbers.choice([word for word in MARKUP if "`" not in word])
    word = f"see {text}{numbers.randrange(10**6)}"
    return _comment(f"{word}", word, word)


def _mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown, "escape", lambda text: text)
    monkeypatch.setattr(markdown, "prose", lambda text: text)
    monkeypatch.setattr(sarif, "PurePosixPath", _Verbatim)
    monkeypatch.setattr(sarif, "_message", formatting.clean_lines)
    monkeypatch.setattr(program, "required", lambda result, attempts: f"{result}{attempts} ")
    monkeypatch.setattr(program, "AUTHOR", _Anyone())
    monkeypatch.setattr(steps, "_verdict", lambda out: json.loads((out / "report.json").read_bytes())["outcome"])


class _Verbatim(str):
    """A path as it is given."""

    __slots__ = ()

    def __new__(cls, *parts: str) -> Self:
        return super().__new__(cls, "/".join(parts))

    @property
    def parts(self) -> tuple[str, ...]:
        return (str(self),)

    def is_absolute(self) -> bool:
        return self.startswith("/")


class _Anyone:
    """Equal to every login."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


CLASS = AttackClass(name="comment injected", attacks=ATTACKS, member=_member, mutant=_mutant)
