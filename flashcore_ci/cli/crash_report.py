"""Where tracebacks go: into a file, not at people."""

from __future__ import annotations

import os
import tempfile
import traceback
from pathlib import Path

from flashcore_ci.suite.settings import Settings

MOST_MESSAGE = 200


def first_line(error: BaseException) -> str:
    """The first line of the error's message, cut to a length that fits a terminal."""
    lines = str(error).splitlines()
    return lines[0][:MOST_MESSAGE] if lines else "no message"


def keep(error: BaseException) -> str:
    """Write the traceback under the tool's home folder, else the temporary one; the file's path, or the traceback itself."""
    text = "".join(traceback.format_exception(error))
    for folder in (Settings.from_environment(os.environ).home / "bugs", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=folder, prefix="flashcore-ci-bug-", suffix=".txt")
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue
        return name
    return text
