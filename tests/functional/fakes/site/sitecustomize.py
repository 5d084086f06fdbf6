"""Run the clock an hour fast until the first worker of a run has started, then set it right.

``CLOCK_IS_SET_BACK`` names the run's plan. Before that exists the clock is right too, so that results are dated correctly.
"""

import os
import time
from pathlib import Path

if "CLOCK_IS_SET_BACK" in os.environ:
    _plan, _workers = Path(os.environ["CLOCK_IS_SET_BACK"]), Path(os.environ["RECORDING"]) / "pids"
    _right = time.time
    time.time = lambda: _right() + (3600.0 if _plan.exists() and not _workers.exists() else 0.0)
