"""C++ sources as canonical text: without comments, with one blank for many. Equal texts compile alike, if their code is ``in_place``.

Blanks count, because ``#x`` sees them. ``find_problem`` refuses what would make two programs look alike. Macros of system headers, as
``assert``, can see lines and columns.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from flashcore_ci.build.text_cache import cached

_PUNCTUATION = r"[(){}\[\];,<>=*+&|!~?:.^-]"
_WORD = rf"""[A-Za-z\x80-\U0010ffff][0-9A-Za-z_\x80-\U0010ffff]*+(?![$"']){_PUNCTUATION}*+"""
_TOKEN = re.compile(
    rf"""
    (?P<raw>(?:u8|[uUL])?R"(?P<fence>[0-9A-Za-z_]{{0,16}})\(.*?(?:\)(?P=fence)"|\Z))
  | (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<newline>\n)
  | (?P<blank>[\ \t]+)
  | (?P<string>(?:u8|[uUL])?"(?:[^"\\\n]++|\\[^\n])*")
  | (?P<char>(?:u8|[uUL])?'(?:[^'\\\n]++|\\[^\n])+')
  | (?P<open>"(?:[^"\\\n]++|\\[^\n])*|'(?:[^'\\\n]++|\\[^\n])*)
  | (?P<number>\.?[0-9](?:[eEpP][+-]|'[0-9A-Za-z_]|[.0-9A-DF-OQ-Za-df-oq-z_$\x80-\U0010ffff]++|[eEpP])*)
  | (?P<words>{_WORD}(?:[ ]{_WORD}){{0,64}})
  | (?P<name>[A-Za-z_$\x80-\U0010ffff][0-9A-Za-z_$\x80-\U0010ffff]*)
  | (?P<plain>{_PUNCTUATION}+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Words that no check looks at are read together, with the single blanks between them. No refused name begins with a letter.
ASCII classes only: what Python calls a letter or a blank depends on its version. What has no end is one token, to stay linear.
Runs of plain characters are possessive: a group that repeats once per character takes 400 bytes of memory each."""
_COMPLETE_RAW = re.compile(r'(?:u8|[uUL])?R"([0-9A-Za-z_]{0,16})\(.*\)\1"', re.DOTALL)
_BETWEEN, _HARMLESS = frozenset({"blank", "comment", "newline"}), frozenset({"blank", "newline", "number", "plain", "words"})
_SPLICE = "\\\n"
_UNSAFE_TEXT = (
    (re.compile(r"\ufeff"), "has a byte order mark"),
    (re.compile(r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f]"), "has a control character"),
    (re.compile(r"\r(?!\n)"), "has a carriage return that ends no line"),
    (re.compile(r"\\[ \t]+\r?$", re.MULTILINE), "has blanks after the backslash that ends a line"),
    (re.compile(r"\?\?[=/'()!<>-]"), "has a trigraph"),
)
_POSITION_MACROS = (
    "__LINE__", "__FILE__", "__COUNTER__", "__TIME__", "__DATE__", "__TIMESTAMP__", "__INCLUDE_LEVEL__", "__BASE_FILE__",
    "__FILE_NAME__", "__builtin_LINE", "__builtin_FILE", "__builtin_FUNCTION", "__builtin_COLUMN", "__builtin_source_location",
)  # fmt: skip
_REFUSED_NAMES = frozenset(
    {*_POSITION_MACROS, "__assert_fail", "__assert_perror_fail", "__has_embed", "__has_include_next"}
    | {name[:length] for name in (*_POSITION_MACROS, "__has_include") for length in range(1, len(name))}
)
"""Also all that ``##`` could begin such a name with."""
_REFUSED_DIRECTIVES = frozenset({"line", "include_next", "import", "embed"})
_HEADER = r'(?:"(?P<quoted>[\w+.-]+(?:/[\w+.-]+)*)"|<(?P<system>[\w+.-]+(?:/[\w+.-]+)*)>)'
_INCLUDE = re.compile(rf"\# ?include ?{_HEADER} ?$", re.ASCII)
_ASKED = re.compile(r"(?<!defined )__has_include\b(?! ?\))")
_PLAINLY_ASKED = re.compile(rf"__has_include ?\( ?{_HEADER} ?\)", re.ASCII)
_DIRECTIVE = re.compile(r"\# ?(\w*)", re.ASCII)


def canonical(text: str) -> str:
    """Remove comments, and make blanks and line breaks one blank. A directive keeps its line."""
    return _read(text)[0]


def in_place(text: str) -> list[str]:
    """List the lines of C++ source with blanks for comments: each word is in its line and column, in bytes of UTF-8."""
    unix = _unix(text)
    spliced = [found.start() - len(_SPLICE) * number for number, found in enumerate(re.finditer(r"\\\n", unix))]
    parts: list[str] = []
    end = 0
    for kind, word, position in _scan(unix.replace(_SPLICE, "")):
        if kind == "comment":
            first, last = (at + len(_SPLICE) * bisect_right(spliced, at) for at in (position, position + len(word) - 1))
            comment = re.sub(r"[^\n]", lambda found: " " * len(found[0].encode()), unix[first : last + 1])
            parts, end = [*parts, unix[end:first], comment], last + 1
    return [line.rstrip(" \t") for line in "".join([*parts, unix[end:]]).rstrip(" \t\n").split("\n")]


def directives(text: str) -> list[str]:
    """List the directives of C++ source in canonical form."""
    return [line for line in canonical(text).split("\n") if line.startswith("#")]


def includes(text: str) -> tuple[tuple[str, bool], ...]:
    """List the headers that C++ source names, with "is quoted". ``__has_include`` names one too."""
    found = []
    for line in directives(text):
        found += [match for match in (_INCLUDE.match(line),) if match]
        found += _PLAINLY_ASKED.finditer(line)
    return tuple((match["quoted"] or match["system"], match["quoted"] is not None) for match in found)


def find_problem(text: str) -> tuple[int, str] | None:
    """Return the line and the construct that could make other programs look the same, if any."""
    for pattern, problem in _UNSAFE_TEXT:
        if found := pattern.search(text):
            return text.count("\n", 0, found.start()) + 1, problem
    _, position, problem = _read(text)
    unix = _unix(text)
    if problem:
        return _line_of(unix, position), problem
    spliced = unix.replace(_SPLICE, "")
    forms = (unix, spliced) if 'R"' in unix or 'R"' in spliced else ("", "")
    raws = [[word for kind, word, _ in _scan(form) if kind == "raw"] for form in forms]
    if raws[0] != raws[1] or any("\n" in word for word in raws[0]):
        return 1, "has a raw string over several lines"
    return next(((0, problem) for line in directives(text) if (problem := _problem_of_directive(line))), None)


@cached
def _read(text: str) -> tuple[str, int, str]:
    """Return the canonical text, and where and what the first problem of a token is, in one pass: a suite has 300 files."""
    parts: list[str] = []
    line_start, directive = True, False
    where, problem = 0, ""
    spliced = _unix(text).replace(_SPLICE, "")
    for kind, word, position in _scan(spliced):
        if kind not in _HARMLESS and not problem:
            end = position + len(word)
            where, problem = position, _problem_of(kind, word, spliced[end : end + 1])
        if kind in _BETWEEN:
            ends = directive and kind == "newline"
            line_start, directive = line_start or kind == "newline", directive and kind != "newline"
            if ends and parts[-1] == " ":
                parts.pop()
            if ends or (parts and parts[-1] not in (" ", "\n")):
                parts.append("\n" if ends else " ")
            continue
        if line_start and word == "#":
            directive = True
            if parts and parts[-1] == " ":
                parts[-1] = "\n"
        parts.append(word)
        line_start = False
    return "".join(parts).rstrip(" \n"), where, problem


def _problem_of(kind: str, word: str, following: str) -> str:
    if kind == "name":
        return _problem_of_name(word, following)
    if kind == "open" or word == "\\":
        return f"has a {word[0]} that begins no complete literal"
    if kind == "comment" and word.startswith("/*") and not (word.endswith("*/") and len(word) >= len("/**/")):
        return "has a comment without an end"
    if kind == "raw" and not _COMPLETE_RAW.fullmatch(word):
        return "has a raw string without an end"
    return "has a digraph for #" if word == "%" and following == ":" else ""


def _problem_of_name(word: str, following: str) -> str:
    if word in _REFUSED_NAMES:
        return f"uses {word}, whose value does not follow from the code alone"
    if "$" in word:
        return f"has a dollar sign in {word[:80]}"
    return "has a raw string with an unusual delimiter" if word.endswith("R") and following == '"' else ""


def _problem_of_directive(line: str) -> str:
    name = _DIRECTIVE.match(line)
    keyword = name[1] if name else ""
    if keyword in _REFUSED_DIRECTIVES or keyword.isdigit():
        return f"has the directive #{keyword}"
    included = _INCLUDE.match(line)
    if keyword == "include" and included is None:
        return f"has an #include that is not the plain name of a header, so no digest covers it: {line[:80]}"
    if included is not None and "source_location" in included[0]:
        return f"includes {included[0]}, whose values do not follow from the code alone"
    asked = len(_ASKED.findall(line)) - len(_PLAINLY_ASKED.findall(line))
    return f"asks for a header by a computed name: {line[:80]}" if asked and keyword not in ("ifdef", "ifndef") else ""


def _line_of(unix: str, position: int) -> int:
    starts = [found.start() - len(_SPLICE) * number for number, found in enumerate(re.finditer(r"\\\n", unix))]
    return unix.count("\n", 0, position + len(_SPLICE) * bisect_right(starts, position)) + 1


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


def _scan(text: str) -> Iterator[tuple[str, str, int]]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        yield ("raw" if kind == "fence" else kind), match[0], match.start()
