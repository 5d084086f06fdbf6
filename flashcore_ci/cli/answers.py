"""What a command says at its end: text, or one JSON object with ``--json``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from flashcore_ci.model.errors import MEANING, ExitCode, FlashcoreError
from flashcore_ci.run import hints, place

JSON = "--json"


def finish(result: Mapping[str, Any], exit_code: int, *, as_json: bool, text: str = "", fix: str = "") -> int:
    """Print ``text``, or ``result`` with its exit code as JSON. Return the exit code.

    A result that is not a success also has ``error`` and ``fix``.
    """
    if as_json:
        failed = {} if exit_code == ExitCode.PASSED else {"error": MEANING[ExitCode(exit_code)], "fix": fix or "read the result"}
        print_json({**failed, "exit_code": int(exit_code), **result})
    elif text:
        click.echo(text, nl=not text.endswith("\n"))
    return exit_code


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object in ASCII. No text in it can end a line or move the cursor."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=True, default=str))


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether ``--json`` is among the options, also of a command line that is wrong."""
    words = list(arguments)
    return JSON in words[: words.index("--") if "--" in words else None]


def fail(message: str, fix: str, exit_code: int, *, as_json: bool, options: hints.Options = ()) -> int:
    """Print an error on standard error, and with ``as_json`` also as JSON. Return the exit code."""
    fix, lines = hints.repeat(fix, options), hints.repeat(message, options).splitlines()
    click.echo("\n".join(f"flashcore-ci: {line}" for line in lines), err=True)
    if fix:
        click.echo(f"fix: {fix}", err=True)
    if as_json:
        with contextlib.suppress(OSError):  # a full disk is told on standard error
            print_json({"error": "\n".join(lines), "fix": fix, "exit_code": int(exit_code)})
    return exit_code


def message_of(error: FlashcoreError) -> str:
    """Return the message, never an empty one."""
    return str(error) or type(error).__name__


def explain_usage(error: click.ClickException) -> tuple[str, str]:
    """Turn an error of click into a message in one line and a fix."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context is not None else "flashcore-ci"
    possible = error.possibilities if isinstance(error, click.NoSuchOption | click.exceptions.NoSuchCommand) else None
    message = " ".join((error.message if possible else error.format_message()).split()).rstrip(".")
    if not possible:
        return message, f"{path} --help"
    fix = f"{path} --help" if isinstance(error, click.NoSuchOption) else f"{path} {possible[0]}"
    return f"{message} (did you mean {possible[0]}?)", fix


def given_options(context: click.Context | None) -> list[tuple[str, str]]:
    """List the options of this call that a hint must keep, as the user gave them."""
    found: list[tuple[str, str]] = []
    for parameter in context.command.params if context is not None else ():
        name = parameter.opts[0]
        if context is None or name not in hints.ACCEPTS or not isinstance(parameter, click.Option) or parameter.name is None:
            continue
        if context.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE:
            value = context.params.get(parameter.name)
            values = value if isinstance(value, tuple) else (value,)
            found += [
                (name, place.seen_from_start(each) if isinstance(each, Path) else str(each))
                for each in values
                if each is not None
            ]
    return found
