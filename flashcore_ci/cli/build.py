"""The command ``build``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import answers, console, options, signals
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run import build
from flashcore_ci.run.request import Request


@click.command("build")
@options.suite
@options.only
@click.option("--out", type=options.FILE, default=Path("build"), show_default=True, help="Folder for the binaries.")
@options.toolchain
@options.jobs
@options.as_json
def command(*, out: Path, as_json: bool, **arguments: Any) -> int:
    """Compile the suite's kernels and record what the compiler reports.

    Exit code 10 when a kernel does not compile.
    """
    with signals.graceful(), console.ProgressLine(os.environ) as progress:
        builds = build.build_suite(Request(out=out, libraries=out, environ=os.environ, **arguments), progress)
    code = ExitCode.GATE_FAILED if any(subject.error for subject in builds) else ExitCode.PASSED
    fix = "fix the error that `builds` has"
    return answers.finish({"builds": build.plain(builds)}, code, as_json=as_json, text=build.as_text(builds), fix=fix)
