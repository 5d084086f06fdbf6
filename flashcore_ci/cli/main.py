"""Find the command, call it, and turn exceptions into exit codes."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import click
from click.shell_completion import CompletionItem

from flashcore_ci import __version__
from flashcore_ci.cli import answers, completion
from flashcore_ci.model.errors import ExitCode, FlashcoreError, as_flashcore_error
from flashcore_ci.run import place, streams

COMPLETING = "_FLASHCORE_CI_COMPLETE"
FOLDER = "-C"
GC_THRESHOLD = 100_000
"""Objects between two garbage collections. Records live to the end, and collecting took a tenth of `judge`'s time."""

COMMANDS: dict[str, str] = {
    "init": "Write a subject and a suite for your kernel and its reference.",
    "import": "Import problems of KernelBench, flashinfer-bench and SOL-ExecBench.",
    "gate": "Build, measure and judge: may this change merge?",
    "plan": "List every check that will be judged, and why others do not apply.",
    "bar": "Does the suite ask as much as the base's? Accepts a reviewed difference.",
    "build": "Compile the suite's kernels and record what the compiler reports.",
    "collect": "Measure on this machine's GPU and write a run folder.",
    "shard": "Cut a suite into parts of about equal time, for several GPUs.",
    "merge": "Join the bundles of shards into one run.",
    "fleet": "Measure one suite on several GPUs: of this machine, of a cluster, or of CI.",
    "compare": "Is one revision slower than another? Time both in turns.",
    "bisect": "Find the commit that made a workload slower.",
    "calibrate": "Record this machine's noise: how small a change does it show?",
    "judge": "Judge a run folder or bundle again. Needs no GPU.",
    "needs-gpu": "Does this commit need a GPU job? Decides without a GPU.",
    "require": "Require that the GPU job's evidence is of this commit and green.",
    "report": "Show a report.json, or write it in other formats.",
    "baseline": "Propose a baseline for the gate `no-drift`.",
    "history": "Keep runs in a database, list and export them.",
    "alerts": "Slowdowns over commits: find, list and decide about them.",
    "dashboard": "Show the history as web pages: a static site, a local server, a digest.",
    "pack": "Pack a run folder into one deterministic file.",
    "statement": "Write or check the in-toto statement of a run.",
    "selftest": "Break the kernels on purpose: does each gate go red on its defect?",
    "doctor": "Can this machine gate? Lists what is missing, and the fix.",
    "toolchain": "Install the pinned CUDA tools.",
    "explain": "Explain a gate or a reason code.",
}
"""Every command and its line in the help. Its module ``flashcore_ci.cli.<name>`` is imported only when it runs."""

MODULES = {"import": "import_problems", "needs-gpu": "needs_gpu"}
"""Modules with another name: Python keeps ``import`` for itself."""

EPILOG = "Exit codes: 0 passed, 10 a gate failed, 11 inconclusive, 2 usage, 3 invalid suite, 4 cannot collect here, 1 a bug."


class RememberedContext(click.Context):
    """A context whose options a hint can keep after its end."""

    last: ClassVar[click.Context | None] = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        RememberedContext.last = self


class Commands(click.Group):
    """A group that imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """List the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        if COMPLETING in os.environ and completion.LazyFinder not in sys.meta_path:
            sys.meta_path.insert(0, completion.LazyFinder)
        command: click.Command = importlib.import_module(f"flashcore_ci.cli.{MODULES.get(cmd_name, cmd_name)}").command
        command.context_class = RememberedContext
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. NoSuchCommand suggests the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.exceptions.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

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
@click.option(FOLDER, "folder", type=click.Path(exists=True, file_okay=False), help="Run as if started in this folder.")
def cli(folder: str | None) -> None:
    """The merge gate for GPU kernels: one verdict for every gate on every workload."""
    if folder is not None:  # ``run`` takes the first one
        raise click.UsageError(f"{FOLDER} must be the first argument, and there can be one")


def run(arguments: Sequence[str]) -> int:
    """Run one command line in the top folder. Return its exit code, also where the output has lost its reader."""
    RememberedContext.last = None
    folder, arguments = _split_folder(arguments)
    with streams.guarded(os.environ), folder, place.at_top():
        status = _run(arguments)
        try:
            sys.stdout.flush()
        except OSError as error:
            return status or _report_unexpected(error, as_json=False)
        return status


def _split_folder(arguments: Sequence[str]) -> tuple[contextlib.AbstractContextManager[None], Sequence[str]]:
    """Return how to enter the folder of a leading ``-C``, and the arguments behind it. A wrong one stays, for the error."""
    if len(arguments) > 1 and arguments[0] == FOLDER and Path(arguments[1]).is_dir():
        return contextlib.chdir(arguments[1]), arguments[2:]
    return contextlib.nullcontext(), arguments


def _run(arguments: Sequence[str]) -> int:
    as_json = answers.wants_json(arguments)
    try:
        status = cli.main(args=list(arguments), prog_name="flashcore-ci", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return ExitCode.USAGE
    except click.ClickException as error:
        message, fix = answers.explain_usage(error)
        return answers.fail(message, fix, ExitCode.USAGE, as_json=as_json)
    except FlashcoreError as error:
        return _report(error, as_json=as_json)
    except (KeyboardInterrupt, click.Abort):
        return answers.fail("stopped", "", ExitCode.INCONCLUSIVE, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the user gets one line whatever went wrong
        return _report_unexpected(error, as_json=as_json)
    return status if isinstance(status, int) else ExitCode.BUG  # a command without an exit code did not pass


def main() -> None:
    """Run the console script. Output to a closed stream is dropped."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the end
    gc.set_threshold(GC_THRESHOLD)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # other packages do not validate our files, and are slow to find
    status = run(sys.argv[1:])
    gc.freeze()  # at its end the interpreter looks for cycles among all objects, which takes a tenth of a second
    sys.exit(status)


def _report(error: FlashcoreError, *, as_json: bool) -> int:
    options = answers.given_options(RememberedContext.last)
    return answers.fail(answers.message_of(error), error.fix, error.exit_code, as_json=as_json, options=options)


def _report_unexpected(error: Exception, *, as_json: bool) -> int:
    cause = as_flashcore_error(error)
    if isinstance(cause, FlashcoreError):
        return _report(cause, as_json=as_json)
    from flashcore_ci.cli import crash_report  # noqa: PLC0415 - only a bug needs it

    message = f"a bug in the tool: {type(error).__name__}: {crash_report.first_line(error)}"
    return answers.fail(message, f"report this bug with {crash_report.keep(error)}", ExitCode.BUG, as_json=as_json)


if __name__ == "__main__":
    main()
