"""Commands in messages keep the options of the user."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

MEASURE = frozenset({"gate", "collect", "compare", "calibrate", "selftest", "bisect"})
BUILD = MEASURE | {"build", "require", "needs-gpu"}
ACCEPTS: dict[str, frozenset[str]] = {
    "--suite": (BUILD - {"selftest"}) | {"plan", "bar", "judge", "explain", "shard", "baseline propose"},
    "--evidence": frozenset({"gate", "shard"}),
    "--toolchain": BUILD | {"doctor"},
    "--gpu": MEASURE | {"doctor"},
    "--allow-process": MEASURE | {"doctor"},
}
"""The options that say what and where, and the commands that have them."""
COMMAND = re.compile(r"flashcore-ci (baseline propose|[a-z]+(?:-gpu)?)")
END = re.compile(r"[`\n]|\.( |$)|, ")

SHOWN = 3
Options = Iterable[tuple[str, str]]


def selection(globs: Sequence[str]) -> str:
    """Return the first of the ``--only`` options, and how many more there are. The plan of the run names what they select."""
    more = f" and {len(globs) - SHOWN} more" if len(globs) > SHOWN else ""
    return " ".join(f"--only {glob}" for glob in globs[:SHOWN]) + more


def repeat(text: str, options: Options) -> str:
    """Add to every command in ``text`` those of ``options`` that it has and does not give."""
    given = tuple(options)

    def completed(found: re.Match[str]) -> str:
        end = END.search(text, found.end())
        rest = text[found.end() : end.start() if end else len(text)]
        more = (
            f" {name} {shlex.quote(value)}" for name, value in given if found[1] in ACCEPTS.get(name, ()) and name not in rest
        )
        return found[0] + "".join(more)

    return COMMAND.sub(completed, text) if given else text
