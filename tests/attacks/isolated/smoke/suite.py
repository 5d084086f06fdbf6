"""Write gates/smoke.toml without the tools that cannot look into another process, trusted or isolated.

python suite.py trusted|isolated > FILE
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
HERE = "tests/attacks/isolated/smoke"
OTHER_TOOLS = re.compile(r'(?ms)^\[\[gate\]\]\nid = "(?:memcheck|racecheck|synccheck|initcheck|sol-\w+)".*?(?=^\[\[|^# ---|\Z)')


def make(text: str, *, isolated: bool) -> str:
    """Return the suite with correctness and timing only."""
    text = OTHER_TOOLS.sub("", text)
    blocks = re.split(r"(?m)^(?=\[\[)", text)
    kept = [re.sub(r', "(?:profile|sanitizer)"|"(?:profile|sanitizer)", ', "", block) for block in blocks]
    kept = [block for block in kept if 'collect = ["sanitizer"]' not in block]
    text = "".join(kept)
    if not isolated:
        return text
    package = sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "kernel/flashcore").glob("*.py"))
    for name in ("attention", "decode", "stream"):
        files = ", ".join(f'"{file}"' for file in (f"{HERE}/{name}.py", *package))
        text = text.replace(
            f'file = "kernel/subjects/{name}.py"\n', f'file = "kernel/subjects/{name}.py"\ncandidate = [{files}]\n'
        )
    return text


if __name__ == "__main__":
    sys.stdout.write(make((ROOT / "gates/smoke.toml").read_text(encoding="utf-8"), isolated=sys.argv[1] == "isolated"))
