"""Stand in for the tool on a machine with a GPU: `gate --live` judges a recorded run.

All other commands run the real tool. The first three arguments start it.
"""

import os
import shutil
import subprocess
import sys

START, COMMAND = sys.argv[1:4], sys.argv[4:]

if COMMAND[0] == "gate" and "--live" in COMMAND:
    given = dict(word.removeprefix("--").split("=", 1) for word in COMMAND if "=" in word)
    shutil.copytree(os.environ["MEASURED"], given["out"])
    COMMAND = ["judge", given["out"], "--suite", given["suite"]]
sys.exit(subprocess.run([*START, *COMMAND], check=False).returncode)
