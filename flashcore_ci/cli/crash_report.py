"""Tracebacks go to a file."""

from __future__ import annotations

import os
import tempfile
import traceback
from pathlib import Path

from flashcore_ci.model.text import visible
from flashcore_ci.run.request import settings_of

MAX_MESSAGE = 200


def first_line(error: BaseException) -> str:
    """Return the first line of the message, cut."""
    lines = str(error).splitlines()
    return lines[0][:MAX_MESSAGE] if lines else "no message"


def keep(error: BaseException) -> str:
    """Write the traceback to home or a temporary folder. Return its path, else the text."""
    text = visible("".join(traceback.format_exception(error)))
    for folder in (settings_of(os.environ).home / "bugs", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=folder, prefix="flashcore-ci-bug-", suffix=".txt")
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue
        return name
    return text
