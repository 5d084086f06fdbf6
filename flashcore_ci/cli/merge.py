"""The command ``merge``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flashcore_ci.cli import options
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import github, merge


@click.command("merge")
@click.argument("bundles", nargs=-1, required=True, type=options.FILE)
@options.path("--out", default=Path("runs/merged"), text="Folder for the merged run.")
@options.path("--statements", default=None, text="Folder with the signed statement of each bundle, NAME.json.")
def command(*, bundles: tuple[Path, ...], out: Path, statements: Path | None) -> int:
    """Join the bundles of shards into one run, the same for any order.

    Without --statements the run is marked unverified, and `require` refuses it. A shard that is lost leaves its checks inconclusive.
    """
    if statements is not None:
        merge.demand_statements(bundles, statements, invocation=github.invocation(os.environ))
    run = merge.merge(merge.read(bundles), verified=statements is not None)
    merge.write(run, out)
    kind = "verified" if statements is not None else "unverified"
    click.echo(f"{len(run.evidence.observations)} observations in {out}, {kind}. Judge them: flashcore-ci judge {out}", err=True)
    return ExitCode.PASSED
