"""Shell completion: suites, gates and workloads. It must be quick, and shows no control character."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

import click
from click.shell_completion import CompletionItem

MOST = 500
LAZY = ("flashcore_ci.run.", "flashcore_ci.cli.console")
SPECIAL = frozenset(" ,;&|<>()!*?~#:\"'`$\\")
"""What a shell or the format of completions would read as something else."""


class LazyFinder(importlib.machinery.PathFinder):
    """Finds use cases, which run only when a command does. Completion needs the options alone."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Delay the import of a use case to the first use of its names."""
        if not fullname.startswith(LAZY):
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


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
