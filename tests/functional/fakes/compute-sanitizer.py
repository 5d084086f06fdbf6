"""Stand in for compute-sanitizer: run the worker and write the log that was recorded for these workloads."""

import os
import sys

import replay

if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        replay.say_version("compute-sanitizer")
    replay.note_pid()
    process, command = replay.wrapped(sys.argv)
    log = replay.value(sys.argv, "--log-file")
    recorded = f"{replay.FOLDER}/artifacts/sanitizer/{log.rpartition('/')[2]}"
    if not os.path.isfile(recorded):  # noqa: PTH113 - as replay.py
        replay.unknown(f"{log} was never recorded")
    if process["timed_out"]:  # the gate ends it before it could copy anything afterwards
        replay.copy(recorded, log)
    status = replay.run_worker(command)
    replay.copy(recorded, log)
    replay.make_noise(process)
    sys.stdout.write(process["out"])
    sys.stderr.write(process["err"])
    sys.exit(process["exit_status"] or abs(status))
