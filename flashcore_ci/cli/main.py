"""Find the command, call it, and turn exceptions into exit codes."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from flashcore_ci import __version__
from flashcore_ci.model.errors import ExitCode, FlashcoreError, as_flashcore_error
from flashcore_ci.run import streams

GC_THRESHOLD = 100_000
"""Objects between two garbage collections. Records live to the end, and collecting took a tenth of `judge`'s time."""

COMMANDS: dict[str, str] = {
    "gate": "Build, measure and judge: may this change merge?",
    "plan": "List every check that will be judged, and why others do not apply.",
    "bar": "Does the suite ask as much as the base's? Accepts a reviewed difference.",
    "build": "Compile the suite's kernels and record what the compiler reports.",
    "collect": "Measure on this machine's GPU and write a run folder.",
    "compare": "Is one revision slower than another? Time both in turns.",
    "calibrate": "Record this machine's noise: how small a change does it show?",
    "judge": "Judge a run folder or bundle again. Needs no GPU.",
    "require": "Require that the GPU job's evidence is of this commit and green.",
    "report": "Show a report.json, or write it in other formats.",
    "baseline": "Propose a baseline for the gate `no-drift`.",
    "history": "Keep runs in a database, list and export them.",
    "pack": "Pack a run folder into one deterministic file.",
    "statement": "Write or check the in-toto statement of a run.",
    "selftest": "Break the kernels on purpose: does each gate go red on its defect?",
    "doctor": "Can this machine gate? Lists what is missing, and the fix.",
    "toolchain": "Install the pinned CUDA tools.",
    "explain": "Explain a gate or a reason code.",
}
"""Every command and its line in the help. Its module ``flashcore_ci.cli.<name>`` is imported only when it runs."""

EPILOG = "Exit codes: 0 passed, 10 a gate failed, 11 inconclusive, 2 usage, 3 invalid suite, 4 cannot collect here, 1 a bug."


class Commands(click.Group):
    """A group that imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """List the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"flashcore_ci.cli.{cmd_name}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the command's name."""
        items = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return items or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the table of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flashcore-ci")
def cli() -> None:
    """The merge gate for GPU kernels: one verdict for every gate on every workload."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line. Return its exit code, also where the output has lost its reader."""
    with streams.guarded(os.environ):
        status = _run(arguments)
        try:
            sys.stdout.flush()
        except OSError as error:
            return status or _report_unexpected(error)
        return status


def _run(arguments: Sequence[str]) -> int:
    try:
        status = cli.main(args=list(arguments), prog_name="flashcore-ci", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except FlashcoreError as error:
        _print_error(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("flashcore-ci: stopped", err=True)
        return ExitCode.INCONCLUSIVE
    except Exception as error:  # noqa: BLE001 - the user gets one line whatever went wrong
        return _report_unexpected(error)
    return status if isinstance(status, int) else ExitCode.BUG  # a command without an exit code did not pass


def main() -> None:
    """Run the console script. Output to a closed stream is dropped."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the end
    gc.set_threshold(GC_THRESHOLD)
    sys.exit(run(sys.argv[1:]))


def _print_error(error: FlashcoreError) -> None:
    lines = str(error).splitlines() or [type(error).__name__]
    click.echo("\n".join(f"flashcore-ci: {line}" for line in lines), err=True)
    if error.fix:
        click.echo(f"fix: {error.fix}", err=True)


def _report_unexpected(error: Exception) -> int:
    cause = as_flashcore_error(error)
    if isinstance(cause, FlashcoreError):
        _print_error(cause)
        return cause.exit_code
    from flashcore_ci.cli import crash_report  # noqa: PLC0415 - only a bug needs it

    click.echo(f"flashcore-ci: a bug in the tool: {type(error).__name__}: {crash_report.first_line(error)}", err=True)
    click.echo(f"fix: report this bug with {crash_report.keep(error)}", err=True)
    return ExitCode.BUG


if __name__ == "__main__":
    main()
