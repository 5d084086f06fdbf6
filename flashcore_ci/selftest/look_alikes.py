"""Change a program where a digest could fail to see it."""

from __future__ import annotations

from pathlib import Path

from flashcore_ci.build.sources import Sources

PAIRS: dict[str, tuple[str, str, str]] = {
    "moved-line": ("a.cu", "int x = __LINE__;\n", "// moved\nint x = __LINE__;\n"),
    "continued-comment": ("a.cu", "int x = 1;  // one \\ \nint y = 2;\n", "int x = 1;  // one \\\nint y = 2;\n"),
    "read-comment": ("a.py", "fast = 'quick' in open(__file__).read()\n", "# quick\nfast = 'quick' in open(__file__).read()\n"),
}
"""The file, and two programs that act differently. The Python one is a candidate's, which may read its own comments."""


def is_seen(scratch: Path, tampering: str) -> bool:
    """Tell whether the second program is refused, or has another digest."""
    name, *programs = PAIRS[tampering]
    digests = set()
    for number, text in enumerate(programs):
        folder = scratch / f"{tampering}-{number}"
        folder.mkdir()
        (folder / name).write_text(text, encoding="utf-8")
        sources, is_python = Sources(folder), name.endswith(".py")
        if sources.problems(() if is_python else [name], [name] if is_python else ()):
            return True
        digests.add(sources.python_digest([name], exact=True) if is_python else sources.c_digest([name]))
    return len(digests) > 1
