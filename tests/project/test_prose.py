"""The project's English: short sentences, few semicolons, no dialect, and a budget for size. CONTRIBUTING.md has the rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import prose
import pytest

from flashcore_ci.cli.main import COMMANDS, cli
from flashcore_ci.model.codes import NEXT_STEP
from flashcore_ci.model.errors import MEANING

ROOT = Path(__file__).parents[2]
MAX_SEMICOLONS, MAX_MEDIAN, MAX_P90 = 2.0, 14, 26
# The four budgets below grew with the issues "Any kernel", "History", "From one GPU to a fleet", "One import away" (with windows and doors) and "FP8".
MAX_DOCSTRING_WORDS = 59_300
MAX_MARKDOWN_WORDS = 68_000
MAX_LINES = {"flashcore_ci": 43_100, "tools": 9_000}

ALLOWED: frozenset[str] = frozenset({"kernel/flashcore/_kvcache.py:is none"})
"""Dialect words that are right where they are, as ``file:word``."""
MAX_ALLOWED = 20

TOP = (".github", "docs", "examples", "flashcore_ci", "gates", "kernel", "tests", "tools")
CODE = (".github", "flashcore_ci", "kernel", "tools")
SKIPPED = re.compile(r"(tests/(golden|recordings)|docs/(schemas|performance|archive))/")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def texts_of(paths: Iterable[Path], extract: Callable[[str], Iterable[str]]) -> list[prose.Text]:
    readable = [path for path in paths if not SKIPPED.match(relative(path))]
    return [(relative(path), text) for path in readable for text in extract(path.read_text(encoding="utf-8", errors="replace"))]


def markdown_texts(paths: Iterable[Path]) -> list[prose.Text]:
    return texts_of(paths, lambda text: [prose.markdown(text)])


def python_texts(extract: Callable[[str], Iterable[str]], *folders: str) -> list[prose.Text]:
    return texts_of(prose.files(ROOT, folders or CODE, ".py"), extract)


def pages() -> list[Path]:
    """All Markdown but the README and the pages of the kernel."""
    folders = [folder for folder in TOP if folder != "kernel"]
    return [*prose.files(ROOT, folders, ".md"), *(path for path in sorted(ROOT.glob("*.md")) if path.name != "README.md")]


KINDS: dict[str, Callable[[], list[prose.Text]]] = {
    "README": lambda: markdown_texts([ROOT / "README.md"]),
    "docs": lambda: markdown_texts(pages()),
    "kernel docs": lambda: markdown_texts(prose.files(ROOT, ["kernel"], ".md")),
    "docstrings": lambda: python_texts(prose.docstrings),
    "Python comments": lambda: python_texts(prose.python_comments),
    "messages": lambda: python_texts(prose.messages),
    "next steps": lambda: [
        *(("flashcore_ci/model/codes.py", text) for text in NEXT_STEP.values()),
        *(("flashcore_ci/model/errors.py", text) for text in MEANING.values()),
    ],
    "CUDA comments": lambda: texts_of(prose.files(ROOT, TOP, ".cu", ".cuh", ".h"), lambda text: [prose.line_comments(text)]),
    "suites": lambda: texts_of(prose.files(ROOT, ["gates", "kernel"], ".toml"), prose.toml_texts),
    "workflows": lambda: texts_of(prose.files(ROOT, [".github"], ".yml"), prose.yaml_texts),
    "help": lambda: list(prose.help_texts(cli, COMMANDS)),
}


@cache
def texts(kind: str) -> tuple[prose.Text, ...]:
    return tuple(KINDS[kind]())


@pytest.mark.parametrize("kind", KINDS)
def test_semicolons_are_rare(kind: str) -> None:
    found = prose.measure(texts(kind))
    assert found.semicolons <= MAX_SEMICOLONS, prose.offenders(texts(kind), lambda sentence: ";" in sentence)


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_are_short(kind: str) -> None:
    found = prose.measure(texts(kind))
    assert found.words, "no text of this kind was found"
    long = prose.offenders(texts(kind), lambda sentence: prose.words(sentence) > MAX_P90)
    assert found.median <= MAX_MEDIAN, long
    assert found.p90 <= MAX_P90, long


def test_dialect_is_only_where_it_is_allowed() -> None:
    found = [word for kind in KINDS for word in prose.dialect(texts(kind))]
    assert sorted(set(found) - ALLOWED) == []
    assert sorted(ALLOWED - set(found)) == [], "no longer used"
    assert len(ALLOWED) <= MAX_ALLOWED


def test_docstrings_stay_within_their_budget() -> None:
    assert sum(prose.words(text) for _, text in texts("docstrings")) <= MAX_DOCSTRING_WORDS


@pytest.mark.parametrize("folder", MAX_LINES)
def test_code_stays_within_its_budget(folder: str) -> None:
    suffixes = (".py",) if folder == "flashcore_ci" else {path.suffix for path in (ROOT / folder).rglob("*")}
    paths = prose.files(ROOT, [folder], *suffixes)
    assert sum(path.read_bytes().count(b"\n") for path in paths) <= MAX_LINES[folder]


def test_pages_stay_within_their_budget() -> None:
    paths = [ROOT / "README.md", *prose.files(ROOT, ["docs", "kernel"], ".md")]
    live = [path for path in paths if not relative(path).startswith("docs/archive/")]
    assert sum(len(path.read_text(encoding="utf-8").split()) for path in live) <= MAX_MARKDOWN_WORDS


class TestTheMeasure:
    """Each extractor and each limit on a text with a known answer."""

    def test_semicolons_sentences_and_words(self) -> None:
        found = prose.measure([("a", "One two three. Four five; six."), ("b", "Seven eight.")])
        assert found == prose.Measure(words=8, semicolons=125.0, median=3, p90=3)
        assert prose.measure([]).words == 0

    def test_offenders_name_file_and_sentence(self) -> None:
        assert (
            prose.offenders([("a.md", "Short one. This is; wrong.")], lambda sentence: ";" in sentence) == "a.md: This is; wrong."
        )

    def test_dialect(self) -> None:
        assert prose.dialect([("a.py", "Nobody mends it. There is no key. It is no suite, and who reads it is right.")]) == [
            "a.py:nobody",
            "a.py:mends",
            "a.py:is no ",
            "a.py:who",
        ]

    def test_markdown_without_code_tables_and_targets(self) -> None:
        text = "# Title\n\nRun `a; b` ([docs](x;y)).\n\n| a; b |\n\n```\nc; d\n```\n- One item.\n"
        assert prose.markdown(text).split() == ["Run", "CODE", "(docs).", "One", "item."]

    def test_python_comments_with_their_paragraphs(self) -> None:
        text = 'A = 1  # behind\n# one\n# two\nB = 2\n"""Under B."""\nimport os  # noqa: X1 - a reason\nC = 3  # noqa: X1\n# fmt: off\n'
        assert prose.python_comments(text) == ["behind", "one\ntwo", "a reason", "Under B."]

    def test_messages(self) -> None:
        text = (
            'raise ValueError(f"{x} is wrong", fix="run it")\nproblems.add(key, "bad" if y else "worse")\n'
            'raise Suite((f"{p}: no",), fix=FIX)\nmessage = "late"\nclick.option("--a", help="An option.")\nother = "not this"\n'
        )
        expected = ["VALUE is wrong", "run it", "bad", "worse", "VALUE: no", "late", "An option."]
        assert sorted(prose.messages(text)) == sorted(expected)

    def test_suites_workflows_and_help(self) -> None:
        assert list(prose.toml_texts('[[gate]]\ntitle = "T"\nid = "x"\nlimits = [{ why = "W", on = "*" }]\n')) == ["T", "W"]
        comments, description = prose.yaml_texts('uses: a/b@c # v1.2.3\n# One\n# line.\nrun: x # Two.\ndescription: "Three."\n')
        assert comments.split("\n\n") == ["", "One\nline.", "Two."]
        assert description == "Three."
        page = "Usage: x [OPTIONS]\n\n  Do it.\n\nOptions:\n  --out PATH  A folder.  [default: runs]\n  -h, --help  Show it.\n"
        assert list(prose.rendered_texts(page)) == ["Do it.", "A folder.", "Show it."]

    def test_cuda_comments(self) -> None:
        assert prose.line_comments("// a\n// b\nint x;  // c\n").split("\n\n") == ["", "a\nb", "c"]
