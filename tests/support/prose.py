"""Measure how plain English is: extract every kind of text, and count words, semicolons, sentences and dialect.

A ``Text`` is a file and a piece of its prose. Each extractor removes what is not prose: code, tables, headings and links.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import tokenize
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml
from click.testing import CliRunner

Text = tuple[str, str]
"""A file and a text in it."""

DIALECT = re.compile(
    r"(?<!there )\b(?:is|are|was|were) (?:none\b|no (?!longer|more|less|slower|faster|worse|better|need|way))"
    r"|\bwho(?:ever)?\b|\bnobody\b|\bmend(?:s|ed|ing)?\b|\bbesides?\b|\bheld against\b|\bthe word of\b"
    r"|\bwhatever else\b|\bleave[sd]? away\b|\bcopy engine\b|\bdawdle\b|\bdealt\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z0-9][\w'./%-]*")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(\"'C])|\n\s*\n")
MESSAGE_KEYWORDS = frozenset({"fix", "message", "help"})
MESSAGE_VARIABLES = frozenset({"fix", "message"})
TOML_KEYS = frozenset({"title", "why", "what"})
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NOT_PROSE = re.compile(r"^(fmt: |type: |-{3}|!|noqa\b(?!.* - ))")
"""Comments for tools, and rulers."""


class Measure(NamedTuple):
    """``semicolons`` per 1,000 words, and the words of a sentence: median and 90th percentile."""

    words: int
    semicolons: float
    median: float
    p90: int


def words(text: str) -> int:
    return len(WORD.findall(text))


def sentences(text: str) -> list[str]:
    """The sentences of a text. One word alone is not a sentence."""
    return [part for part in SENTENCE_END.split(text) if words(part) > 1]


def measure(texts: Iterable[Text]) -> Measure:
    joined = "\n\n".join(text for _, text in texts)
    count, lengths = words(joined), sorted(map(words, sentences(joined)))
    if not count or not lengths:
        return Measure(0, 0.0, 0.0, 0)
    return Measure(count, 1000 * joined.count(";") / count, statistics.median(lengths), lengths[int(0.9 * (len(lengths) - 1))])


def dialect(texts: Iterable[Text]) -> list[str]:
    """Dialect words as ``file:word``."""
    return [f"{file}:{match.group(0).lower()}" for file, text in texts for match in DIALECT.finditer(text)]


def offenders(texts: Iterable[Text], is_bad: Callable[[str], bool]) -> str:
    """The sentences to rewrite, one per line with their file, for the message of a test."""
    found = ((file, sentence) for file, text in texts for sentence in sentences(text) if is_bad(sentence))
    return "\n".join(f"{file}: {' '.join(sentence.split())[:200]}" for file, sentence in found)


# --- Markdown, TOML, YAML, CUDA ----------------------------------------------------------------------------------------


def markdown(text: str) -> str:
    """Running text alone: no code, tables, headings, link targets or HTML."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not re.match(r"\s*([|#>]|<|!\[|---)", line))
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"^\s*([-*]|\d+\.)\s+", "\n\n", text, flags=re.MULTILINE)


def toml_texts(text: str) -> Iterator[str]:
    """The titles and reasons of a suite, wherever they are."""
    yield from _values(tomllib.loads(text), TOML_KEYS)


def _values(node: Any, keys: frozenset[str]) -> Iterator[str]:
    """The strings under these keys, at any depth."""
    if isinstance(node, list):
        for item in node:
            yield from _values(item, keys)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key in keys and isinstance(value, str):
                yield value
            else:
                yield from _values(value, keys)


def yaml_texts(text: str) -> Iterator[str]:
    """The comments of a workflow, without the tags of pinned actions, and its descriptions."""
    yield line_comments(text, r"(?:^|(?<=\s))#(?!\s*v\d)")
    yield from _values(yaml.safe_load(text), frozenset({"description"}))


def line_comments(text: str, mark: str = "//+") -> str:
    """Comments of C, CUDA or YAML. Neighbouring lines are one paragraph, a comment behind code is another."""
    parts: list[str] = []
    joined = False
    for line in text.splitlines():
        match = re.match(rf"(.*?){mark}\s?(.*)", line)
        if not match or "http" in line:
            joined = False
            continue
        alone = not match[1].strip()
        parts.append(("\n" if joined and alone else "\n\n") + match[2])
        joined = alone
    return "".join(parts)


# --- Python ------------------------------------------------------------------------------------------------------------


def docstrings(text: str) -> list[str]:
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED))
    return [found for node in nodes if (found := ast.get_docstring(node))]


def python_comments(text: str) -> list[str]:
    """Comments as paragraphs, and the texts under constants and fields. A ``noqa`` counts by its reason."""
    paragraphs: list[str] = []
    last = -2
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        comment = token.string.lstrip("# ").strip()
        alone = token.line.lstrip().startswith("#")
        if NOT_PROSE.match(comment):
            continue
        comment = comment.split(" - ", 1)[1] if comment.startswith("noqa") else comment
        if alone and last == token.start[0] - 1:
            paragraphs[-1] += f"\n{comment}"
        else:
            paragraphs.append(comment)
        last = token.start[0] if alone else -2
    return paragraphs + _attribute_texts(ast.parse(text))


def _attribute_texts(tree: ast.AST) -> list[str]:
    documented = {id(node.body[0]) for node in ast.walk(tree) if isinstance(node, DOCUMENTED) and node.body}
    return [
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str) and id(node) not in documented
    ]


def messages(text: str) -> list[str]:
    """Texts for users: of exceptions, ``fix``, ``message`` and ``help``, and of mistakes in a suite. Values become VALUE."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found += _strings(node.exc.args)
        elif isinstance(node, ast.Call):
            found += _strings(keyword.value for keyword in node.keywords if keyword.arg in MESSAGE_KEYWORDS)
            if isinstance(node.func, ast.Attribute) and node.func.attr == "add" and len(node.args) > 1:
                found += _strings(node.args[1:])
        elif isinstance(node, ast.Assign) and {getattr(target, "id", "").lower() for target in node.targets} & MESSAGE_VARIABLES:
            found += _strings([node.value])
    return found


def _strings(nodes: Iterable[ast.expr]) -> Iterator[str]:
    """The text of string literals, of both branches of a condition, and of every member of a tuple."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
        elif isinstance(node, ast.IfExp):
            yield from _strings((node.body, node.orelse))
        elif isinstance(node, ast.Tuple | ast.List):
            yield from _strings(node.elts)


# --- Help ---------------------------------------------------------------------------------------------------------------


def help_texts(group: click.Group, names: Iterable[str]) -> Iterator[Text]:
    """The rendered ``--help`` of the group and of each command, without usage lines, option names and defaults."""
    for arguments in ([], *([name] for name in names)):
        result = CliRunner().invoke(group, [*arguments, "--help"], terminal_width=5000, max_content_width=5000)
        assert result.exit_code == 0, result.output
        for text in rendered_texts(result.output):
            yield f"{' '.join(arguments) or 'flashcore-ci'} --help", text


def rendered_texts(output: str) -> Iterator[str]:
    """The paragraphs and the option texts of a rendered help page."""
    for line in output.splitlines():
        text = re.sub(r"\s*\[[^\]]*\]\s*$", "", re.split(r"\s{2,}", line.strip(), maxsplit=1)[-1])
        if text and not text.startswith(("Usage:", "-")) and not re.fullmatch(r"[\w ]+:", text):
            yield text


# --- Files --------------------------------------------------------------------------------------------------------------


def files(root: Path, folders: Iterable[str], *suffixes: str) -> list[Path]:
    """The files of these folders with one of these suffixes, sorted. Caches do not count."""
    found = (path for folder in folders for path in (root / folder).rglob("*") if path.is_file())
    return sorted(path for path in found if path.suffix in suffixes and "__pycache__" not in path.parts)
