"""Stand in for compute-sanitizer: run the worker and write the log that was recorded for these workloads."""

import shutil
import subprocess
import sys
from pathlib import Path

import replay

if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        replay.say_version("compute-sanitizer")
    replay.note_pid()
    process, command = replay.wrapped(sys.argv)
    log = Path(replay.value(sys.argv, "--log-file"))
    recorded = replay.FOLDER / "artifacts/sanitizer" / log.name
    if not recorded.is_file():
        replay.unknown(f"{log.name} was never recorded")
    if process["timed_out"]:  # the gate ends it before it could copy anything afterwards
        shutil.copyfile(recorded, log)
    status = subprocess.call(command)
    shutil.copyfile(recorded, log)
    replay.make_noise(process)
    sys.stdout.write(process["out"])
    sys.stderr.write(process["err"])
    sys.exit(process["exit_status"] or abs(status))
