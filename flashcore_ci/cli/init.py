"""The command ``init``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import console, options
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import place
from flashcore_ci.run.request import Request
from flashcore_ci.scaffold import starting


@click.command("init")
@click.argument("kernel", metavar="KERNEL.py::FUNCTION")
@click.argument("reference", metavar="REFERENCE.py::FUNCTION")
@click.option("--name", help="Name of the subject and its suite.  [default: the kernel's]")
@click.option("--inputs", "drawer", metavar="FILE.py::FUNCTION", help="Draws the inputs, from a seed or from nothing.")
@click.option("--input", "given", multiple=True, metavar="NAME=DTYPE:SIZExSIZE", help="One input, or NAME=NUMBER. Repeatable.")
def command(kernel: str, reference: str, **arguments: Any) -> int:
    """Write a subject, a suite, a workflow and a line of .gitignore for a kernel.

    KERNEL is a Python function, or an entry function of a .cu file. The reference is called once, on tensors without data. Nothing
    that exists is overwritten.
    """
    request = Request(suite=Path("gates/new.toml"), out=options.DEFAULT_OUT, environ=os.environ)
    kernel, reference = _placed(kernel), _placed(reference)
    arguments["drawer"] = _placed(arguments["drawer"]) if arguments["drawer"] else arguments["drawer"]
    with console.ProgressLine(os.environ) as progress:
        started = starting.start(kernel, reference, request, progress, **arguments)
    for file in started.files:
        click.echo(f"wrote {file}")
    for note in filter(None, started.notes):
        click.echo(f"review: {note}")
    click.echo(f"next: flashcore-ci plan --suite {started.suite}  ({started.checks} checks)")
    click.echo(f"then: flashcore-ci gate --live --suite {started.suite}  (needs a GPU)")
    return ExitCode.PASSED


def _placed(function: str) -> str:
    """Turn ``FILE::FUNCTION`` as the user typed it into one of the top folder."""
    file, colons, name = function.partition("::")
    return f"{place.at_start(file)}{colons}{name}"
