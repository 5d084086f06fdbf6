"""Refuse a release with an owner placeholder, or without a changelog entry for the version."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACEHOLDER = re.compile(r"\bOWNER\b|\"(?:repository|actor)_id\": 0\b|^\s+0$")
FILES = ("*.md", "pyproject.toml", ".pre-commit-hooks.yaml", "docs/**/*.md", ".github/**/*")
VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


def problems(root: Path) -> Iterator[str]:
    """Yield a line for each problem."""
    for path in sorted({path for pattern in FILES for path in root.glob(pattern) if path.is_file()}):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            if PLACEHOLDER.search(line):
                yield f"{path.relative_to(root)}:{number}: the owner is not filled in: {line.strip()}"
    found = VERSION.search((root / "flashcore_ci/__init__.py").read_text(encoding="utf-8"))
    version = found[1] if found else "unknown"
    if f"## {version} (" not in (root / "CHANGELOG.md").read_text(encoding="utf-8"):
        yield f"CHANGELOG.md: there is no heading '## {version} (DATE)' for the version in flashcore_ci/__init__.py"


def main(root: Path = ROOT) -> int:
    """Print every problem. 1 when there is one."""
    found = list(problems(root))
    for problem in found:
        print(problem, file=sys.stderr)
    print("not ready for a release" if found else "ready for a release")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
