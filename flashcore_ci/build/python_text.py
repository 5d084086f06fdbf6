"""Python sources as canonical text: without comments, empty lines and blanks at line ends, and otherwise as written.

Python's own tokenizer is not used, because its tokens differ between versions.
"""

from __future__ import annotations

import ast
import re

from flashcore_ci.build.text_cache import cached

# No possessive repeats of groups: before 3.11.5 Python matched them wrongly (python/cpython#106052).
_TOKEN = re.compile(
    r"""
    (?P<string>(?P<prefix>[A-Za-z]{0,3})(?P<quote>\"\"\"|'{3})(?:[^\\"']++|\\.|["'])*?(?P=quote)
      |(?P<prefix1>[A-Za-z]{0,3})(?P<quote1>["'])(?:[^\\\n"']++|\\.|(?!(?P=quote1))["'])*(?P=quote1))
  | (?P<open>(?:\"\"\"|\'{3})(?:[^\\]++|\\.)*|"(?:[^"\\\n]++|\\.)*|'(?:[^'\\\n]++|\\.)*)
  | (?P<comment>\#[^\n]*)
  | (?P<newline>\n)
  | (?P<word>[0-9A-Za-z_\x80-\U0010ffff]+)
  | (?P<plain>[ ()\[\]{}:;,.=+*/<>@&|^~!%-]+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_HARMLESS = frozenset({"comment", "newline", "word", "plain"})
_NESTED = r"""'[^'\\{}\n]*'|"[^"\\{}\n]*\""""
_FIELD = rf"""\{{(?:[^{{}}'"\\:\#]++|{_NESTED})*(?::(?:[^{{}}'"\\]++|\{{[^{{}}'"\\:\#]*\}})*)?\}}"""
_FORMATTED = re.compile(rf"(?:\{{\{{|\}}\}}|\\.|[^{{}}\\]++|{_FIELD})*", re.DOTALL)
"""Formatted strings that every version of Python ends at the same quote. Later ones allow that quote inside a field."""
_UNSAFE_TEXT = (
    (re.compile(r"\ufeff"), "has a byte order mark"),
    (re.compile(r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f]"), "has a control character"),
    (re.compile(r"\r(?!\n)"), "has a carriage return that ends no line"),
    (
        re.compile(r"^(?:[^\n]*\n)?[ \t]*#[^\n]*coding[:=](?![ \t]*utf-?8(?![\w.-]))[ \t]*[-\w.]", re.IGNORECASE),
        "names an encoding other than utf-8",
    ),
)
_SEES_LINES = re.compile(
    r"lineno|linetable|lnotab|co_lines|co_positions|getsource|get_source|get_data|get_code|getcomments|_getframe|currentframe"
    r"|__code__|__traceback__|__loader__|f_back|[gc]r_frame|gi_frame|settrace|setprofile"
    r"|\b(?:inspect|linecache|traceback|tokenize|tracemalloc|warnings|logging|monitoring|faulthandler)\b"
)

_SCRIPTS = re.compile(r"\b(?:n?jit|torchscript)\b", re.IGNORECASE)
"""TorchScript takes types from comments. Comments do not count here."""
_SEES_DOCSTRINGS = re.compile(r"__doc__|getdoc|pydoc|doctest|co_consts")


@cached
def canonical(text: str) -> str:
    """Remove comments, empty lines and blanks at line ends."""
    lines: list[str] = []
    line = ""
    for match in _TOKEN.finditer(text.replace("\r\n", "\n") + "\n"):
        if match["newline"]:
            line = line.rstrip(" \t")
            if line or (lines and lines[-1].endswith("\\")):  # an empty line ends a continued one
                lines.append(line)
            line = ""
        elif not match["comment"]:
            line += match[0]
    return "\n".join(lines)


@cached
def find_problem(text: str) -> tuple[int, str] | None:
    """Return the line and the construct that could make other programs look the same, if any."""
    for pattern, problem in _UNSAFE_TEXT:
        if found := pattern.search(text):
            return text.count("\n", 0, found.end()) + 1, problem
    unix = text.replace("\r\n", "\n")
    for match in _TOKEN.finditer(unix):
        if match.lastgroup not in _HARMLESS and (problem := _problem_of(match, unix)):
            return unix.count("\n", 0, match.start()) + 1, problem
    return None


def sees_lines(text: str) -> bool:
    """Tell whether this code may look at line numbers or at source. Then comments count."""
    return _SEES_LINES.search(text) is not None or _SCRIPTS.search(canonical(text)) is not None


def sees_docstrings(code: str) -> bool:
    """Tell whether code, as from ``code_of``, may look at docstrings or comments."""
    return _SEES_DOCSTRINGS.search(code) is not None or sees_lines(code)


def code_of(text: str) -> str | None:
    """Return the code without comments and docstrings, with strings joined and escapes resolved. None if Python cannot read it."""
    try:
        return ast.unparse(_WithoutTexts().visit(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _WithoutTexts(ast.NodeTransformer):
    """Removes strings that are statements: docstrings, and those that Python discards."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return ast.Pass() if is_text else self.generic_visit(node)


def _problem_of(match: re.Match[str], text: str) -> str:
    if match["open"]:
        return f"has a {match['open'][0]} that begins no complete string"
    if match["other"] == "\\" and text[match.end() : match.end() + 1] != "\n":
        return "has a backslash that does not end its line"
    if match["other"] == "\\" and not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip(" \t"):
        return "has a line with only a backslash"
    quote = match["quote"] or match["quote1"]
    prefix = (match["prefix"] or match["prefix1"] or "").lower()
    if not quote or not set(prefix) & set("ft"):
        return ""
    body = match[0][len(prefix) + len(quote) : -len(quote)]
    hash_in_field = len(quote) > 1 and re.search(r"\{[^{}\n]*#", body)
    return (
        "has a formatted string that versions of Python read in different ways"
        if hash_in_field or not _FORMATTED.fullmatch(body)
        else ""
    )
