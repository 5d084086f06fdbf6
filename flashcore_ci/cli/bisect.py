"""The command ``bisect``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import answers, console, options, signals
from flashcore_ci.cli.extras import extra
from flashcore_ci.model.errors import ExitCode, UsageError
from flashcore_ci.run import bisect
from flashcore_ci.run.request import Request

GOOD_TOOLCHAIN = "CUDA tools of the good end, to search over their bump too.  [those of the bad end]"


@click.command("bisect")
@click.argument("alert", required=False)
@click.option("--workload", metavar="ID", help="The workload that became slower.  [that of ALERT]")
@click.option("--good", metavar="REVISION", help="A commit that was fast.  [that of ALERT]")
@click.option("--bad", metavar="REVISION", help="A later commit that is slow.  [that of ALERT]")
@click.option("--good-toolchain", type=options.TOOLCHAIN, default=None, help=GOOD_TOOLCHAIN)
@options.path("--good-python", default=None, text="The interpreter of the good end, to search over torch and Triton too.")
@click.option(
    "--db",
    default="sqlite:///.flashcore-ci/history.db",
    show_default=True,
    metavar="URL",
    help="The history, if ALERT has no file.",
)
@options.suite
@options.path("--out", default=Path("runs/bisect"), text="Folder for the measurements.")
@options.measuring
@options.lock_clocks
@options.as_json
def command(
    *, alert: str | None, db: str, workload: str | None, good: str | None, bad: str | None, as_json: bool, **arguments: Any
) -> int:
    """Which commit made a workload slower? ALERT is a file of alerts/ or an alert of the history. Or give --workload, --good and --bad.

    Builds what can differ, and measures only commits whose code does, each with both ends in one sitting. Needs a GPU.
    """
    tools = {name: arguments.pop(name) for name in ("good_toolchain", "good_python")}
    if alert is not None:
        named = bisect.ends_of(arguments["suite"], alert, workload)
        if named is None:
            with extra():
                from flashcore_ci.run import history_reading  # noqa: PLC0415 - needs the extra `history`
            named = history_reading.ends_of_alert(db, os.environ, alert, workload)
        workload, good, bad = workload or named[0], good or named[1], bad or named[2]
    if workload is None or good is None or bad is None:
        raise UsageError("bisect needs an ALERT, or a workload and two revisions", fix="give --workload, --good and --bad")
    question = bisect.Question(workload=workload, good=good, bad=bad, **tools)
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        found = bisect.bisect(question, Request(environ=os.environ, **arguments), progress)
    is_found = found.is_real and not found.between
    result = {"last_good": found.last_good.commit, "first_bad": found.first_bad.commit, "comparisons": len(found.steps)}
    code = ExitCode.PASSED if is_found else ExitCode.INCONCLUSIVE
    return answers.finish(result, code, as_json=as_json, text="\n".join(bisect.lines(found)))
