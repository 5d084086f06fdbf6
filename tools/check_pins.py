"""Ask GitHub whether each pinned action is the commit of the tag beside it. Needs the network; no token.

``uses: owner/repository/path@COMMIT # TAG`` must be what ``git ls-remote`` says of TAG: of an annotated tag, the commit behind it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

GITHUB = Path(__file__).resolve().parents[1] / ".github"
PIN = re.compile(r"uses:\s*([\w.-]+/[\w.-]+)[\w./-]*@([0-9a-f]{40})\s+#\s+(v\S+)\s*$", re.MULTILINE)


def pins(folder: Path) -> set[tuple[str, str, str]]:
    """(repository, commit, tag) of every action that the workflows and actions in ``folder`` use."""
    return {match.groups() for path in sorted(folder.rglob("*.yml")) for match in PIN.finditer(path.read_text(encoding="utf-8"))}


def tagged(lines: str, tag: str) -> str:
    """The commit that ``git ls-remote`` names for the tag; empty when there is none."""
    found = {name: commit for commit, _, name in (line.partition("\t") for line in lines.splitlines())}
    return found.get(f"refs/tags/{tag}^{{}}", found.get(f"refs/tags/{tag}", ""))


def problems(folder: Path) -> Iterator[str]:
    """A line for each pin that is not its tag's commit."""
    for repository, commit, tag in sorted(pins(folder)):
        argv = ["git", "ls-remote", f"https://github.com/{repository}", f"refs/tags/{tag}", f"refs/tags/{tag}^{{}}"]
        asked = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
        if asked.returncode != 0:
            yield f"{repository}: cannot ask: {asked.stderr.strip()}"
        elif tagged(asked.stdout, tag) != commit:
            yield f"{repository}: {tag} is {tagged(asked.stdout, tag) or 'no tag there'}, pinned is {commit}"
        else:
            print(f"{repository} {tag} is {commit}")


def main() -> int:
    """1 when a pin is wrong, or there is none to look at."""
    found = list(problems(GITHUB)) if pins(GITHUB) else ["no pinned action was found"]
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
