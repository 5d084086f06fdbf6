"""Standard output and error: they show no control character, hold no command for GitHub, and outlive their reader."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from flashcore_ci.model.text import inert, visible

READER_GONE = frozenset({errno.EPIPE, errno.EIO, errno.ESHUTDOWN, errno.ECONNRESET, errno.ENXIO})


LONG = 80
"""A line of so many characters cannot begin with a command any more, unless its end is."""


class GuardedStream(io.TextIOBase):
    """A text stream in front of ``stream``. Once its reader is gone, it drops what it is given.

    ``buffer`` takes reports, which are safe already. ``write_trusted`` also takes colors and GitHub's commands.
    """

    encoding = "utf-8"
    errors = "strict"

    def __init__(self, stream: TextIO, *, github: bool) -> None:
        self.stream = stream
        self.buffer = _ReportBuffer(self)
        self._github = github
        self._error: OSError | None = None
        self._line = ""  # what the current line holds so far
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Show ``text`` with control characters escaped."""
        if not isinstance(text, str):
            raise TypeError("this stream takes text")
        self.write_report(visible(text))
        return len(text)

    def write_report(self, text: str) -> None:
        """Write text without control characters. Commands in it are broken."""
        if self._github and text:
            whole = inert(self._line + text)
            start = inert(self._line)
            text = whole.removeprefix(start) if whole.startswith(start) else f" {text}"
            line = (self._line + text).rpartition("\n")[2]
            self._line = line if len(line) < LONG else f"x{line[-8:]}"
        self.write_trusted(text)

    def write_trusted(self, text: str) -> None:
        """Write ``text`` as it is."""
        if text:
            self._try(lambda: self.stream.write(text))

    def flush(self) -> None:
        """Flush. OSError also for an earlier error of the disk."""
        if self._error is not None:
            raise self._error
        self._try(self.stream.flush)

    def isatty(self) -> bool:
        """Tell whether this is a terminal."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor."""
        return self.stream.fileno()

    def writable(self) -> bool:
        """Tell that it can be written to."""
        return True

    def drop(self) -> None:
        """Drop what is buffered and all further output. The interpreter flushes at its end."""
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())

    def _try(self, action: Any) -> None:
        try:
            action()
        except OSError as error:
            self.drop()
            if error.errno not in READER_GONE:
                error.filename = error.filename or getattr(self.stream, "name", None)
                self._error = error  # it counts even if the writer ignores it
                raise


class _ReportBuffer:
    """The binary side of a stream."""

    def __init__(self, stream: GuardedStream) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError("this stream takes bytes")
        self._stream.write_report(bytes(data).decode("utf-8", errors="replace"))
        return len(data)

    def flush(self) -> None:
        self._stream.flush()


def is_github(environ: Mapping[str, str]) -> bool:
    """Tell whether GitHub Actions runs this."""
    return environ.get("GITHUB_ACTIONS") == "true"


@contextlib.contextmanager
def guarded(environ: Mapping[str, str]) -> Iterator[None]:
    """Guard standard output and error."""
    before = sys.stdout, sys.stderr
    out, err = (GuardedStream(stream, github=is_github(environ)) for stream in before)
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in (out, err):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()


def write_trusted(text: str, *, err: bool = False) -> None:
    """Write text of this tool that holds colors or commands."""
    stream = sys.stderr if err else sys.stdout
    getattr(stream, "write_trusted", stream.write)(text)
    stream.flush()
