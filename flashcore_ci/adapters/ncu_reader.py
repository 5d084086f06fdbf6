"""``python -m flashcore_ci.adapters.ncu_reader REPORT [NCU]``: actions as JSON.

ncu's reader is a C library that aborts on some damaged reports (3 of 30,000), so it has its own process.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from flashcore_ci.adapters import ncu


def main(argv: list[str]) -> int:
    """Print the actions as JSON on the last line."""
    report, *tools = map(Path, argv)
    reader = ncu.import_reader(tools[0] if tools else None)
    actions = [dataclasses.asdict(action) for action in ncu.read_actions(reader, report)]
    sys.stdout.write(f"\n{json.dumps(actions)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
