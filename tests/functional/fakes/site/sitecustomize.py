"""Run the clock an hour fast until the first worker of a run has started, then set it right.

``CLOCK_IS_SET_BACK`` names the run's plan. Before that exists the clock is right too, so that results are dated correctly.
``CALLS`` names a file to which each process of the tool appends how many functions its main thread has called.
"""

import os
import time
from pathlib import Path

if "CLOCK_IS_SET_BACK" in os.environ:
    _plan, _workers = Path(os.environ["CLOCK_IS_SET_BACK"]), Path(os.environ["RECORDING"]) / "pids"
    _right = time.time
    time.time = lambda: _right() + (3600.0 if _plan.exists() and not _workers.exists() else 0.0)

if "CALLS" in os.environ:
    import atexit
    from cProfile import Profile

    def _note(profile: Profile) -> None:
        profile.disable()
        with Path(os.environ["CALLS"]).open("a", encoding="ascii") as file:
            file.write(f"{sum(entry.callcount for entry in profile.getstats())}\n")

    _profile = Profile()
    atexit.register(_note, _profile)
    _profile.enable()
