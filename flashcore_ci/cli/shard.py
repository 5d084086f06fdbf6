"""The command ``shard``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import answers, console, options
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import shards
from flashcore_ci.run.request import Request


@click.command("shard")
@options.suite
@click.option("--gpus", type=click.IntRange(1, 1000), required=True, help="How many GPUs will measure: at most so many shards.")
@options.path("--out", default=Path("runs/shards"), text="Folder for the shard files.")
@options.evidence
@options.as_json
def command(*, out: Path, gpus: int, as_json: bool, **arguments: Any) -> int:
    """Cut a suite into shards of about equal time, one file each.

    `collect --shard FILE` measures one of them on any machine, and `merge` joins the results.
    """
    with console.ProgressLine(os.environ) as progress:
        found = shards.cut_to_files(Request(out=out, environ=os.environ, **arguments), progress, gpus=gpus)
    rows = [{"file": str(file), "units": len(shard.units), "seconds": shard.needs.seconds} for shard, file in found]
    lines = (f"{row['file']}  {row['units']} units, about {row['seconds']:.0f} s" for row in rows)
    return answers.finish({"shards": rows}, ExitCode.PASSED, as_json=as_json, text="\n".join(lines))
