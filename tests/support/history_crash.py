"""Let eight processes write made-up runs at once, and kill some of them at random: ``python history_crash.py URL KILLS COUNT``.

Two writers race for every run. A killed one starts again from its beginning. Forks are cheap here, because this program has one thread.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

from history_factories import add, made_run

WRITERS = 8
STEP = WRITERS // 2


def start(url: str, index: int, count: int) -> int:
    """Fork a writer of every fourth run."""
    if child := os.fork():
        return child
    try:
        for number in range(index % STEP, count, STEP):
            add(url, made_run(number, series=3, version=number // 4))
    except BaseException as error:  # noqa: BLE001 - a child never returns into the parent's code
        sys.stderr.write(f"{error!r}\n")
        os._exit(1)
    os._exit(0)


def main(url: str, kills: int, count: int) -> int:
    """Return how many writers failed. A killed one did not."""
    drawn = random.Random(kills)
    running = [start(url, index, count) for index in range(WRITERS)]
    for _ in range(kills):
        time.sleep(drawn.uniform(0, 0.3))
        index = drawn.randrange(WRITERS)
        os.kill(running[index], signal.SIGKILL)  # a writer that has ended is not reaped yet
        os.waitpid(running[index], 0)
        running[index] = start(url, index, count)
    return sum(os.waitpid(child, 0)[1] != 0 for child in running)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
