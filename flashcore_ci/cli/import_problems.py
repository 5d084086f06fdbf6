"""The command ``import``."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from flashcore_ci.cli import answers, console, options
from flashcore_ci.model.errors import ExitCode
from flashcore_ci.run.request import Request
from flashcore_ci.scaffold import importing


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=options.FILE)
@options.path("--candidate", default=None, text="A file with ModelNew.  [default: torch.compile of the model]")
@click.option("--folder", default="gates/imported", show_default=True, help="Folder of the new subjects and suites.")
@click.option(
    "--workloads", type=click.IntRange(1, 200), default=20, show_default=True, help="Workloads per definition, at most."
)
@options.as_json
def command(paths: tuple[Path, ...], *, workloads: int, as_json: bool, **arguments: Any) -> int:
    """Import problems of KernelBench, flashinfer-bench and SOL-ExecBench.

    Each becomes a subject that is not trusted, and a suite. Its code runs once on fake tensors, without network and files.
    """
    request = Request(suite=Path("gates/new.toml"), out=options.DEFAULT_OUT, environ=os.environ)
    with console.ProgressLine(os.environ) as progress:
        results = importing.import_problems(paths, request, progress, most=workloads, **arguments)
    lines = []
    for each in results:
        note = f" ({each.note})" if each.note else ""
        lines.append(f"{each.suite}: {each.checks} checks{note}" if each.suite else f"refused {each.name}: {each.why}")
    done = [each for each in results if each.suite]
    lines.append(f"{len(done)} of {len(results)} became valid plans. FLOP, bytes and tolerances are estimates: review them.")
    lines += [f"next: flashcore-ci gate --live --suite {done[0].suite}"] if done else []
    code = ExitCode.PASSED if len(done) == len(results) else ExitCode.INVALID_SUITE
    fix = "read why each problem is refused, or leave those files out"
    return answers.finish({"problems": list(map(asdict, results))}, code, as_json=as_json, text="\n".join(lines), fix=fix)
