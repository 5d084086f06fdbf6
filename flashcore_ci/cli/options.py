"""The options of several commands."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from flashcore_ci.cli import completion
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.evidence import YEARS
from flashcore_ci.run import place

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_OUT = Path("runs/latest")
DEFAULT_JUDGED = Path("runs/judged")
PINNED = ("13.0", "13.5")
END_OF_DAY = 86_399


class Moment(click.ParamType[str, Any]):
    """A date or a time (ISO 8601, UTC without a zone)."""

    name = "ISO 8601"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Convert to UTC, to the second. A day alone is its last second."""
        utc = None
        try:
            moment = dt.datetime.fromisoformat(value)
            moment += dt.timedelta(seconds=END_OF_DAY) if len(value) == len("2026-11-21") else dt.timedelta()
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
            utc = zoned.astimezone(dt.UTC)
        except (ValueError, OverflowError):
            pass
        if utc is None or utc.year not in YEARS:
            self.fail(f"{value!r} is not a date or time like 2026-11-21 or 2026-11-21T08:00:00Z", param, ctx)
        return utc.strftime("%Y-%m-%dT%H:%M:%SZ")


class Seconds(click.FloatRange):
    """A time that is not negative, and a number: no clock ever reaches ``nan``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert to a float."""
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


class UserPath(click.Path):
    """A path as the user typed it, turned into one of the top folder. Defaults are of the top folder already."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert what the user typed."""
        return super().convert(place.at_start(value) if isinstance(value, str) else value, param, ctx)


class UserFolder(UserPath):
    """A folder that must exist, if the user names it. The default need not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert what the user typed. UsageError if it is not a folder."""
        folder = super().convert(value, param, ctx)
        if isinstance(value, str) and not (folder.is_dir() or (ctx is not None and ctx.resilient_parsing)):
            raise UsageError(f"{place.seen_from_start(folder)} is not a folder", fix="name a folder that exists")
        return folder


FILE, FOLDER = UserPath(), UserFolder()


def path(*names: str, default: Path | None, text: str) -> Callable[[F], F]:
    """Make an option for a file or folder."""
    return click.option(*names, type=FILE, default=default, show_default=default is not None, help=text)


def of_project(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Take the default from pyproject.toml."""
    if value is not None or ctx.resilient_parsing or param.name is None:
        return value
    from flashcore_ci.run.project import default_path  # noqa: PLC0415 - `--help` does not need it

    return default_path(param.name)


def project_path(*names: str, text: str, kind: UserPath = FILE) -> Callable[[F], F]:
    """Make an option for a file or folder whose default is in pyproject.toml."""
    more = "  [default: pyproject.toml]"
    return click.option(*names, type=kind, callback=of_project, shell_complete=completion.paths, help=text + more)


def suite_is_default() -> bool:
    """Tell whether the user named no suite."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source("suite") is click.core.ParameterSource.DEFAULT


suite = project_path("--suite", text="The suite: workloads, gates, limits.")
out = path("--out", default=DEFAULT_OUT, text="Folder for the run and its reports.")
evidence = project_path("--evidence", text="Folder of recorded runs, used where there is no GPU.", kind=FOLDER)
build = path("--build", default=None, text="Use the binaries that `build` wrote to this folder. Their digests are checked.")
stale = click.option(
    "--stale",
    type=click.Choice(["block", "defer"]),
    default="block",
    show_default=True,
    help="Checks without matching evidence block, or are deferred to a GPU job that must be green.",
)
as_of = click.option("--as-of", type=Moment(), help="Judge as of this moment. It decides which waivers have expired.")
only = click.option(
    "--only",
    multiple=True,
    metavar="GLOB",
    shell_complete=completion.targets,
    help="Judge only gates or targets that match. Repeatable.",
)
toolchain = click.option(
    "--toolchain",
    type=click.Choice(["pip", *PINNED, "system"]),
    default="pip",
    show_default=True,
    help=f"CUDA tools: the pinned ones (pip: CUDA {PINNED[0]}), or those of this machine.",
)
jobs = click.option("--jobs", type=click.IntRange(min=1), default=None, help="Compilers at a time.  [default: one per core]")
allow_process = click.option(
    "--allow-process", multiple=True, metavar="NAME", help="A process that may share the GPU. Repeatable."
)
gpu = click.option("--gpu", default="", show_default="the first visible", metavar="INDEX|UUID", help="The GPU to measure on.")
lock_timeout = click.option(
    "--lock-timeout",
    type=Seconds(min=0),
    default=1800.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for another gate on the same GPU.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output, also on failure.")
base_build = path("--base-build", default=None, text="Use the binaries of the base in this folder, as --build does for the head.")
TOOLCHAIN = click.Choice(["pip", *PINNED, "system"])


def sides(command: F) -> F:
    """Add the options of sides that are built and run by other tools than head."""
    toolchain = click.option(
        "--base-toolchain",
        type=TOOLCHAIN,
        default=None,
        help="CUDA tools of the base, to measure a new toolchain.  [those of head]",
    )
    base = path("--base-python", default=None, text="The base's interpreter, to measure a new torch or Triton.  [that of head]")
    anchor = path("--anchor-python", default=None, text="The interpreter of the anchor.  [that of head]")
    return toolchain(base(anchor(command)))


lock_clocks = click.option(
    "--lock-clocks",
    type=click.IntRange(min=1),
    metavar="MHZ",
    help="Lock the SM clock while measuring. Needs permission, and is meant for dedicated runners.",
)


def measuring(command: F) -> F:
    """Add the options of commands that measure."""
    return toolchain(allow_process(gpu(lock_timeout(jobs(command)))))
