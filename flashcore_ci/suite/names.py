"""Names in suite files for shell completion: quick, without pydantic, and silent about mistakes."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashcore_ci.bounded import files
from flashcore_ci.suite.expand import fill
from flashcore_ci.suite.project import read_project

MAX_SUITE = 512 * files.KIB
MOST = 2000


def suites(root: Path) -> list[Path]:
    """List the suites next to the default one, relative to ``root``."""
    folder = read_project(root).path_of("suite").parent
    return [folder / file.name for file in sorted((root / folder).glob("*.toml")) if b"[[workload]]" in _read(file)]


def names(suite: Path, *, gates_only: bool = False) -> list[str]:
    """List gates, workloads and subjects of a suite. Empty if it cannot be read."""
    try:
        document = tomllib.loads(_read(suite).decode("utf-8"))
    except (ValueError, RecursionError):
        return []
    return list(dict.fromkeys(itertools.islice(_names({"gate": document.get("gate")} if gates_only else document), MOST)))


def _names(document: dict[str, Any]) -> Iterator[str]:
    for name, key in (("gate", "id"), ("subject", "name")):
        yield from (table[key] for table in _tables(document, name) if isinstance(table.get(key), str))
    for table in _tables(document, "workload"):
        yield from _workloads(table)


def _workloads(table: dict[str, Any]) -> Iterator[str]:
    each = table.get("each", {})
    try:
        axes = [[(name, value) for value in values] for name, values in each.items()]
        for case, *combination in itertools.product(table.get("cases", [{}]), *axes):
            yield fill(table["id"], {**table.get("params", {}), **case, **dict(combination)})
    except (AttributeError, KeyError, TypeError, ValueError):
        return


def _tables(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    tables = document.get(name)
    return [table for table in tables if isinstance(table, dict)] if isinstance(tables, list) else []


def _read(file: Path) -> bytes:
    try:
        return files.read(file, limit=MAX_SUITE)
    except OSError:
        return b""
