"""The command ``init``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import answers, console, options
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
@options.as_json
def command(kernel: str, reference: str, *, as_json: bool, **arguments: Any) -> int:
    """Write a subject, a suite, a workflow and a line of .gitignore for a kernel.

    KERNEL is a Python function, or an entry function of a .cu file. The reference is called once, on tensors without data. Nothing
    that exists is overwritten.
    """
    request = Request(suite=Path("gates/new.toml"), out=options.DEFAULT_OUT, environ=os.environ)
    kernel, reference = _placed(kernel), _placed(reference)
    arguments["drawer"] = _placed(arguments["drawer"]) if arguments["drawer"] else arguments["drawer"]
    with console.ProgressLine(os.environ) as progress:
        started = starting.start(kernel, reference, request, progress, **arguments)
    notes = list(filter(None, started.notes))
    lines = [
        *(f"wrote {file}" for file in started.files),
        *(f"review: {note}" for note in notes),
        f"next: flashcore-ci plan --suite {started.suite}  ({started.checks} checks)",
        f"then: flashcore-ci gate --live --suite {started.suite}  (needs a GPU)",
    ]
    result = {"files": started.files, "review": notes, "suite": started.suite, "checks": started.checks}
    return answers.finish(result, ExitCode.PASSED, as_json=as_json, text="\n".join(lines))


def _placed(function: str) -> str:
    """Turn ``FILE::FUNCTION`` as the user typed it into one of the top folder."""
    file, colons, name = function.partition("::")
    return f"{place.at_start(file)}{colons}{name}"
