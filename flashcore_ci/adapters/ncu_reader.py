"""``python -m flashcore_ci.adapters.ncu_reader NCU REPORT``: the actions of a report, as JSON on the last line of standard output.

In a process of its own, since ncu's reader is a C library that aborts on some damaged reports: three of 30,000 did.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from flashcore_ci.adapters import ncu


def main(argv: list[str]) -> int:
    """Say what the report holds."""
    tool, report = map(Path, argv)
    actions = [dataclasses.asdict(action) for action in ncu.read_actions(ncu.import_reader(tool), report)]
    sys.stdout.write(f"\n{json.dumps(actions)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
