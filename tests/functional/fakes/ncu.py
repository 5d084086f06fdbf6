"""Stand in for ncu: run the worker and write the report that was recorded for these workloads."""

import sys
from pathlib import Path

import replay

if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        replay.say_version("ncu")
    folder = Path(replay.FOLDER, "artifacts/profile")
    if "--import" in sys.argv:
        page = folder / Path(replay.value(sys.argv, "--import")).with_suffix(".csv").name
        sys.stdout.write(page.read_text(encoding="utf-8") if page.is_file() else "==ERROR== Failed to load report file.\n")
        sys.exit(not page.is_file())
    replay.note_pid()
    process, command = replay.wrapped(sys.argv)
    report = Path(replay.value(sys.argv, "--export"))
    status = replay.run_worker(command)
    if (folder / report.name).is_file():
        replay.copy(str(folder / report.name), str(report))
    replay.make_noise(process)
    sys.stdout.write(process["out"])
    sys.stderr.write(process["err"])
    sys.exit(process["exit_status"] or abs(status))
