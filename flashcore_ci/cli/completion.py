"""Shell completion: suites, gates and workloads. It must be quick, and shows no control character."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

MOST = 500
SPECIAL = frozenset(" ,;&|<>()!*?~#:\"'`$\\")
"""What a shell or the format of completions would read as something else."""


def paths(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    """Complete a suite, else leave it to the shell."""
    from flashcore_ci.run import completion, place  # noqa: PLC0415 - only completion needs them

    names = (place.seen_from_start(file) for file in completion.suites()) if param.name == "suite" else ()
    found = _items(names, incomplete)
    return found or [CompletionItem(incomplete, type="file" if param.name == "suite" else "dir")]


def targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a gate, subject or workload of the suite. ``explain`` also knows reason codes."""
    from flashcore_ci.run import completion  # noqa: PLC0415 - as above

    suite = ctx.params.get("suite")
    return _items(completion.names(suite if isinstance(suite, Path) else None, with_codes=param.name == "name"), incomplete)


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    found = (name for name in names if name.startswith(incomplete) and name.isprintable() and not set(name) & SPECIAL)
    return [CompletionItem(name) for name in itertools.islice(dict.fromkeys(found), MOST)]
