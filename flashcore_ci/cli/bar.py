"""The command ``bar``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from flashcore_ci.cli import answers, console, options, signals
from flashcore_ci.run.base import acceptance
from flashcore_ci.run.request import Request


@click.command("bar")
@click.argument("base", default="origin/main", metavar="[REVISION]")
@options.suite
@click.option("--accept", metavar="WHY", help="Write the file that accepts exactly this difference, for review.")
@click.option("--owner", default="maintainers", show_default=True, help="The owner of the acceptance.")
@click.option("--base-tree", type=click.Path(path_type=Path), hidden=True, help="A folder with the base's files.")
@click.option("--head-tree", type=click.Path(path_type=Path), hidden=True, help="A folder with head's files.")
@options.as_json
def command(
    *, base: str, suite: Path, accept: str | None, owner: str, base_tree: Path | None, head_tree: Path | None, as_json: bool
) -> int:
    """Does this checkout's suite ask as much as that of the commit where it left REVISION?

    Lists every check that is gone, loosened, advisory, waived or excluded. Without a reviewed acceptance each of them blocks.
    """
    request = Request(suite=suite, out=options.DEFAULT_OUT, environ=os.environ, suite_is_default=options.suite_is_default())
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        if base_tree is not None and head_tree is not None:
            click.echo(acceptance.compare_trees_as_json(base_tree, head_tree, request), nl=False)
            return 0
        result = acceptance.show(base, request, progress, accept=accept, owner=owner)
    return answers.finish(json.loads(result.as_json), result.exit_code, as_json=as_json, text=result.as_text, fix=result.fix)
