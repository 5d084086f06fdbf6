"""A process that imports torch for its workers, and the tool, while its gate plans, and then runs one command: the shard of a GPU.

``python -m flashcore_ci.cli.shard_process FIFO``. The gate writes the command line into the FIFO, or ends the process.
"""

from __future__ import annotations

import json
import os
import sys

from flashcore_ci.run import host
from flashcore_ci.run.request import settings_of


def wait_for_arguments(fifo: str) -> list[str]:
    """Wait, without a poll, for one line of JSON."""
    with open(fifo, encoding="utf-8") as orders:  # noqa: PTH123 - a FIFO
        return [str(word) for word in json.loads(orders.readline())]


if __name__ == "__main__":
    with host.importing(settings_of(os.environ).python), host.driver_kept():
        from flashcore_ci.cli import collect, main  # the import of torch takes longer, and has begun

        IMPORTED = collect.command
        sys.argv[1:] = wait_for_arguments(sys.argv[1])
        main.main()
