"""Digests of sources as they were before they were strict: tokens without blanks, and no refusal. The mutants of attacks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashcore_ci.build import python_text, tokens
from flashcore_ci.build.sources import Sources
from flashcore_ci.model.identity import digest_of

_C_TOKEN = re.compile(
    r"""(?P<raw>(?:u8|[uUL])?R"(?P<fence>[^()\\\s]{0,16})\(.*?\)(?P=fence)")|(?P<drop>//(?:\\\n|[^\n])*|/\*.*?\*/|\\\n|\s)"""
    r"""|(?:u8|[uUL])?"(?:\\(?s:.)|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\(?s:.)|[^'\\\n])+'|\.?\d(?:[eEpP][+-]|'\w|[\w.])*|[^\W\d][\w$]*|.""",
    re.DOTALL,
)


def c_tokens(text: str) -> str:
    """Join the tokens of C++ without blanks, comments and line breaks."""
    return "\0".join(found[0] for found in _C_TOKEN.finditer(text.replace("\r\n", "\n")) if not found["drop"])


def python_lines(text: str) -> str:
    """Join the lines of Python without comments and empty lines, and without a thought for lines that continue."""
    parts = (found for found in python_text._TOKEN.finditer(text))
    lines = "".join("" if found["comment"] else found[0] for found in parts).split("\n")
    return "\n".join(line.rstrip() for line in lines if line.strip())


def undo(patch: pytest.MonkeyPatch) -> None:
    """Make all sources count as they did, and refuse none."""
    for module, naive in ((tokens, c_tokens), (python_text, python_lines)):
        patch.setattr(module, "canonical", naive)
        patch.setattr(module, "find_problem", lambda _: None)
    patch.setattr(python_text, "sees_lines", lambda _: False)
    patch.setattr(Sources, "c_digest", lambda self, paths: digest_of([(path, c_tokens(self.text(path))) for path in paths]))
    patch.setattr(Sources, "problems", lambda *_: [])
    patch.setattr(Sources, "_encoding_problem", lambda *_: None)
    patch.setattr(Sources, "_outside", lambda *_: None)


def look_alike(folder: Path, base: dict[str, bytes], head: dict[str, bytes], *, python: bool = False) -> bool:
    """Tell whether two checkouts are accepted and have the same digest of ``a.cu`` with its headers, or of their Python files."""
    digests = []
    for name, files in (("base", base), ("head", head)):
        for path, data in files.items():
            file = folder / name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        sources = Sources(folder / name)
        covered = sorted(files) if python else list(sources.closure("a.cu", ["include"]))
        if sources.problems(() if python else covered, covered if python else ()):
            return False
        digests.append(sources.python_digest(covered) if python else sources.c_digest(covered))
    return digests[0] == digests[1]
