"""Sources as tokens, without comments, blanks and line breaks. Equal tokens compile alike, ``__LINE__`` apart."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import lru_cache

MAX_CACHED_TEXTS = 1024
"""Many subjects read the same headers."""
_PUNCTUATORS = r"%:%:|<<=|>>=|<=>|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|\.\*"
"""Longest first. The list need not be complete: ``+ +`` and ``++`` must differ."""

_TOKEN = re.compile(
    r"""
    (?P<raw>(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)")
  | (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
  | (?P<newline>\n)
  | (?P<blank>\\\n|\s)
  | (?P<string>(?:u8|[uUL])?"(?:\\(?s:.)|[^"\\\n])*")
  | (?P<char>(?:u8|[uUL])?'(?:\\(?s:.)|[^'\\\n])+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
  | (?P<name>[^\W\d][\w$]*)
  | (?P<other>"""
    + _PUNCTUATORS
    + r"""|.)
    """,
    re.VERBOSE | re.DOTALL,
)

_INCLUDE = re.compile(
    r"(?:^[ \t]*#[ \t]*include(?:_next)?|__has_include[ \t]*\()[ \t]*(?:\"(?P<quoted>[^\"\n]+)\"|<(?P<system>[^>\n]+)>)",
    re.MULTILINE,
)
"""``__has_include`` counts too: whether the header exists changes what is compiled."""
_PYTHON_BLANKS = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER})
_PYTHON_LAYOUT = frozenset({tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})


@lru_cache(maxsize=MAX_CACHED_TEXTS)
def c_tokens(text: str) -> tuple[str, ...]:
    """Return the tokens of C, C++ or CUDA. The end of a directive counts, and the blank that makes a macro object-like."""
    tokens: list[str] = []
    directive = -1  # index of the current directive's first token, or -1
    line_start, blank = True, False
    for kind, word in _scan(text):
        if kind in ("blank", "comment"):
            blank = True
            continue
        if kind == "newline":
            if directive >= 0:
                tokens.append("\n")
            directive, line_start, blank = -1, True, False
            continue
        if line_start and word == "#":
            directive = len(tokens)
        if word == "(" and blank and directive >= 0 and tokens[directive + 1 : -1] == ["define"]:
            tokens.append(" ")
        tokens.append(word)
        line_start, blank = False, False
    return tuple(tokens)


@lru_cache(maxsize=MAX_CACHED_TEXTS)
def includes(text: str) -> tuple[tuple[str, bool], ...]:
    """List the headers that C source names, with "is quoted"."""
    code = "".join(" " if kind == "comment" else word for kind, word in _scan(text) if word != "\\\n")
    return tuple((match["quoted"] or match["system"], match["quoted"] is not None) for match in _INCLUDE.finditer(code))


@lru_cache(maxsize=MAX_CACHED_TEXTS)
def python_tokens(text: str) -> tuple[str, ...]:
    """Return the tokens of Python, alike for every version. Docstrings count. Invalid source is a single token."""
    lines = text.splitlines(keepends=True)
    tokens: list[str] = []
    nested: list[tuple[int, int]] = []  # starts of the enclosing f-strings
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            kind = tokenize.tok_name[token.type]
            if kind.endswith("STRING_START"):
                nested.append(token.start)
            elif kind.endswith("STRING_END"):
                start = nested.pop()
                if not nested:  # as written: Python 3.11 has one token where later versions have several
                    tokens.append(_slice(lines, start, token.end))
            elif nested or token.type in _PYTHON_BLANKS:
                continue
            else:
                tokens.append(f"<{kind}>" if token.type in _PYTHON_LAYOUT else token.string)
    except (tokenize.TokenError, SyntaxError):
        return (text,)
    return tuple(tokens)


def _scan(text: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        yield ("raw" if kind == "fence" else kind), match[0]


def _slice(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    (first, begin), (last, stop) = start, end
    if first == last:
        return lines[first - 1][begin:stop]
    return "".join((lines[first - 1][begin:], *lines[first : last - 1], lines[last - 1][:stop]))
