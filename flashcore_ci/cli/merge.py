"""The command ``merge``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flashcore_ci.cli import answers, options
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import github, merge, statement


@click.command("merge")
@click.argument("bundles", nargs=-1, required=True, type=options.FILE)
@options.path("--out", default=Path("runs/merged"), text="Folder for the merged run.")
@options.path("--statements", default=None, text="Folder with the signed statement of each bundle, NAME.json.")
@click.option("--signer", metavar="URL", help="The workflow that must have signed, with its branch. --statements needs it.")
@options.path("--shards", default=None, text="Folder with the shard file of each bundle, NAME.json.")
@options.as_json
def command(
    *, bundles: tuple[Path, ...], out: Path, statements: Path | None, signer: str | None, shards: Path | None, as_json: bool
) -> int:
    """Join the bundles of shards into one run, the same for any order.

    Without --statements the run is marked unverified, and `require` refuses it. A shard that is lost leaves its checks inconclusive.
    """
    if (statements is None) != (signer is None):
        raise click.UsageError("--statements and --signer belong together: give both")
    if statements is not None and signer is not None:
        for bundle in bundles:
            file, run_here = statements / f"{bundle.name}.json", github.invocation(os.environ)
            statement.demand_signed(bundle, file, signer=signer, invocation=run_here)
    parts = merge.read(bundles)
    if shards is not None:
        merge.demand_shards(parts, shards)
    run = merge.merge(parts, verified=statements is not None)
    merge.write(run, out, bundles)
    kind = "verified" if statements is not None else "unverified"
    count = len(run.evidence.observations)
    click.echo(f"{count} observations in {out}, {kind}. Judge them: flashcore-ci judge {out}", err=True)
    return answers.finish({"out": str(out), "observations": count, "status": kind}, ExitCode.PASSED, as_json=as_json)
