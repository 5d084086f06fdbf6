"""The options that several commands share, each defined once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_SUITE = Path("gates/hopper.toml")
DEFAULT_OUT = Path("runs/latest")
DEFAULT_JUDGED = Path("runs/judged")
DEFAULT_EVIDENCE = Path("gates/evidence")


class Moment(click.ParamType[str, Any]):
    """A date or a date and time (ISO 8601; UTC when it names no zone), as ``2026-11-21T08:00:00Z``."""

    name = "ISO 8601"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The moment in UTC to the second; a usage error when it is none."""
        try:
            moment = dt.datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no date or time like 2026-11-21 or 2026-11-21T08:00:00Z", param, ctx)
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
        return zoned.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _path(*names: str, default: Path | None, text: str) -> Callable[[F], F]:
    return click.option(*names, type=click.Path(path_type=Path), default=default, show_default=default is not None, help=text)


suite = _path("--suite", default=DEFAULT_SUITE, text="The suite: workloads, gates, limits.")
out = _path("--out", default=DEFAULT_OUT, text="Folder for the run and its reports.")
evidence = _path("--evidence", default=DEFAULT_EVIDENCE, text="Folder of recorded runs, used where there is no GPU.")
build = _path("--build", default=None, text="Use the binaries in this folder (written by `build`) after checking their digests.")
stale = click.option(
    "--stale",
    type=click.Choice(["block", "defer"]),
    default="block",
    show_default=True,
    help="What checks without matching evidence do: block, or be deferred to a GPU job that must be green.",
)
as_of = click.option("--as-of", type=Moment(), default=None, help="Judge as of this moment (waivers expire by it).")
only = click.option("--only", multiple=True, metavar="GLOB", help="Only gates or targets that match; may be given again.")
toolchain = click.option(
    "--toolchain",
    type=click.Choice(["pip", "system"]),
    default="pip",
    show_default=True,
    help="CUDA tools: the pinned ones, or those of this machine.",
)
jobs = click.option("--jobs", type=click.IntRange(min=1), default=None, help="Compilers at a time.  [default: one a core]")
allow_process = click.option(
    "--allow-process", multiple=True, metavar="NAME", help="A process that may share the GPU; may be given again."
)
gpu = click.option("--gpu", default="0", show_default=True, metavar="INDEX|UUID", help="The GPU to measure on.")
lock_timeout = click.option(
    "--lock-timeout",
    type=click.FloatRange(min=0),
    default=1800.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for another gate on the same GPU.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output.")
base_build = _path("--base-build", default=None, text="Use the base's binaries in this folder, as --build does for the head's.")
lock_clocks = click.option(
    "--lock-clocks",
    type=click.IntRange(min=1),
    default=None,
    metavar="MHZ",
    help="Lock the GPU's clock while measuring (needs the right to; for dedicated runners).",
)
