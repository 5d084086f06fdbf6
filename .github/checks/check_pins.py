"""Check that each pinned action is the commit of the tag in its comment. Needs the network, but no token.

For ``uses: owner/repository/path@COMMIT # TAG``, ``git ls-remote`` must print COMMIT for TAG.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

GITHUB = Path(__file__).resolve().parents[1]
PIN = re.compile(r"uses:\s*([\w.-]+/[\w.-]+)[\w./-]*@([0-9a-f]{40})\s+#\s+(v\S+)\s*$", re.MULTILINE)


def pins(folder: Path) -> set[tuple[str, str, str]]:
    """Return (repository, commit, tag) of every action in ``folder``."""
    return {match.groups() for path in sorted(folder.rglob("*.yml")) for match in PIN.finditer(path.read_text(encoding="utf-8"))}


def tagged(lines: str, tag: str) -> str:
    """Return the tag's commit, also of an annotated tag, or nothing."""
    found = {name: commit for commit, _, name in (line.partition("\t") for line in lines.splitlines())}
    return found.get(f"refs/tags/{tag}^{{}}", found.get(f"refs/tags/{tag}", ""))


def problems(folder: Path) -> Iterator[str]:
    """Yield a line for each pin that is not its tag's commit."""
    for repository, commit, tag in sorted(pins(folder)):
        argv = ["git", "ls-remote", f"https://github.com/{repository}", f"refs/tags/{tag}", f"refs/tags/{tag}^{{}}"]
        remote = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
        if remote.returncode != 0:
            yield f"{repository}: cannot ask: {remote.stderr.strip()}"
        elif tagged(remote.stdout, tag) != commit:
            yield f"{repository}: {tag} is {tagged(remote.stdout, tag) or 'no tag there'}, pinned is {commit}"
        else:
            print(f"{repository} {tag} is {commit}")


def main() -> int:
    """Print the problems. 1 if a pin is wrong, or if there are none."""
    found = list(problems(GITHUB)) if pins(GITHUB) else ["no pinned action was found"]
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
