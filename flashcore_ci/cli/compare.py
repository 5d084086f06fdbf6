"""``flashcore-ci compare``: is HEAD slower than BASE?"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import click

from flashcore_ci.adapters import git
from flashcore_ci.cli import console, options, signals
from flashcore_ci.model.suite import Kind
from flashcore_ci.run import gate
from flashcore_ci.run.base import checkout
from flashcore_ci.run.request import Request


@click.command("compare")
@click.argument("base")
@click.argument("head", required=False)
@options.suite
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/compare"),
    show_default=True,
    help="Folder for the run and its reports.",
)
@options.only
@options.build
@options.base_build
@options.toolchain
@options.allow_process
@options.gpu
@options.lock_timeout
@options.lock_clocks
@options.jobs
@options.as_json
def command(*, base: str, head: str | None, out: Path, as_json: bool, **asked: Any) -> int:
    """Is HEAD slower than BASE? Both are git revisions; without HEAD, this checkout as it is.

    Builds both, times them in turns in fresh processes on this machine's GPU, and judges the suite's gates on comparisons.
    Workloads are asked by HEAD's suite and subjects on both sides; each side runs its own library and binding.
    """
    teller = console.Teller(os.environ)
    asked |= {"environ": os.environ, "live": True, "kinds": (Kind.COMPARISON,), "out": out.absolute()}
    with signals.graceful(), tempfile.TemporaryDirectory(prefix="flashcore-ci-") as logs:
        here = Request(**asked)
        asked["base"] = git.commit_of(here.root, base, logs=Path(logs))
        if head is not None:
            asked["commit"] = git.commit_of(here.root, head, logs=Path(logs))
            asked["checkout"] = checkout.of(asked["commit"], here, Path(logs))
        report = gate.gate(Request(**asked), teller)
    teller.done()
    console.present(report, out, as_json=as_json, environ=os.environ)
    return report.exit_code
