"""Stand in for ncu: run the worker and write the report that was recorded for these workloads."""

import shutil
import subprocess
import sys
from pathlib import Path

import replay

if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        replay.say_version("ncu")
    if "--import" in sys.argv:
        page = replay.FOLDER / "artifacts/profile" / Path(replay.value(sys.argv, "--import")).with_suffix(".csv").name
        sys.stdout.write(page.read_text(encoding="utf-8") if page.is_file() else "==ERROR== Failed to load report file.\n")
        sys.exit(not page.is_file())
    replay.note_pid()
    process, command = replay.wrapped(sys.argv)
    report = Path(replay.value(sys.argv, "--export"))
    recorded = replay.FOLDER / "artifacts/profile" / report.name
    status = subprocess.call(command)
    if recorded.is_file():
        shutil.copyfile(recorded, report)
    replay.make_noise(process)
    sys.stdout.write(process["out"])
    sys.stderr.write(process["err"])
    sys.exit(process["exit_status"] or abs(status))
