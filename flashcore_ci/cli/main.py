"""The program: finds the command, calls it, and alone turns exceptions into exit codes."""

from __future__ import annotations

import contextlib
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

MANY = 100_000
"""Objects between two looks for garbage. Records are many and live to the end: looking at them took a tenth of `judge`'s time."""

COMMANDS: dict[str, str] = {
    "gate": "Build, measure and judge: may this change merge?",
    "plan": "List every check that will be judged, and why others do not apply.",
    "build": "Compile the suite's kernels and record what the compiler says of them.",
    "collect": "Measure on this machine's GPU and write a run folder.",
    "compare": "Is one revision slower than another? Time both, in turns.",
    "calibrate": "Record how small a change this machine shows.",
    "judge": "Judge a run folder or bundle again; needs no GPU.",
    "require": "Demand that the GPU job's evidence is of this commit and green.",
    "report": "Show a report.json, or write it in other formats.",
    "baseline": "Propose a baseline for `no-drift`: a file for a review.",
    "pack": "Pack a run folder into one deterministic file.",
    "selftest": "Break the kernels on purpose: does each gate go red on its defect?",
    "doctor": "Can this machine gate? What is missing, and what fixes it.",
    "toolchain": "Install the pinned CUDA tools.",
    "explain": "Explain a gate or a reason code.",
}
"""Every command and its line in the help; its module is ``flashcore_ci.cli.<name>`` and is imported only when it is run."""

EPILOG = "Exit codes: 0 passed, 10 a gate failed, 11 inconclusive, 2 usage, 3 invalid suite, 4 cannot collect here, 1 a bug."


class Commands(click.Group):
    """A group whose help needs none of its commands' imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """The command's function, imported now."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"flashcore_ci.cli.{cmd_name}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What the shell offers, with the words of the table."""
        named = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return named or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """The table of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flashcore-ci")
def cli() -> None:
    """The merge gate for GPU kernels: one verdict for every gate on every workload."""


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code. Nothing is raised."""
    try:
        status = cli.main(args=list(arguments), prog_name="flashcore-ci", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except FlashcoreError as error:
        _explain(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("flashcore-ci: stopped", err=True)
        return ExitCode.INCONCLUSIVE
    except BrokenPipeError:
        return _reader_left()
    except Exception as error:  # noqa: BLE001 - the last line of defence: whatever it is, the person gets one line
        return _last_resort(error)
    return status if isinstance(status, int) else ExitCode.BUG  # a command that forgot to say how it ended did not pass


def main() -> None:
    """The console script. What is written to a stream that was closed before we began goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the end
    gc.set_threshold(MANY)
    sys.exit(run(sys.argv[1:]))


def _explain(error: FlashcoreError) -> None:
    """What is wrong, and what to do about it."""
    lines = str(error).splitlines() or [type(error).__name__]
    click.echo("\n".join(f"flashcore-ci: {line}" for line in lines), err=True)
    if error.fix:
        click.echo(f"fix: {error.fix}", err=True)


def _reader_left() -> int:
    """Whoever read our output is gone: say nothing more, also at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter flushes into the closed pipe
    return ExitCode.BUG


def _last_resort(error: Exception) -> int:
    """A full disk is an error like any other; the rest are bugs."""
    cause = as_flashcore_error(error)
    if isinstance(cause, FlashcoreError):
        _explain(cause)
        return cause.exit_code
    return _bug(error)


def _bug(error: Exception) -> int:
    from flashcore_ci.cli import crash_report  # noqa: PLC0415 - only a bug needs it

    click.echo(f"flashcore-ci: a bug in the tool: {type(error).__name__}: {crash_report.first_line(error)}", err=True)
    click.echo(f"fix: report it with {crash_report.keep(error)}", err=True)
    return ExitCode.BUG


if __name__ == "__main__":
    main()
