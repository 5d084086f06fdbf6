"""Read and write the files that accept a lower bar: ``acceptances/*.toml`` next to the suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints

from flashcore_ci.model.bar import Acceptance, BarDifference
from flashcore_ci.model.errors import CannotCollectError, SuiteError, UsageError
from flashcore_ci.suite.loader import read_document
from flashcore_ci.suite.problems import Problems
from flashcore_ci.suite.tables import Prose, Table, require_prose

FOLDER = "acceptances"
MAX_FILES = 200
WRITE = "`flashcore-ci bar --accept WHY` if the bar is still lower"
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class AcceptanceTable(Table):
    """The file: both digests as ``flashcore-ci bar`` prints them, the reason and its owner."""

    base: Digest
    difference: Digest
    why: Prose
    owner: Prose


def read_acceptances(suite: Path) -> tuple[Acceptance, ...]:
    """Read all acceptances next to ``suite``, by name. SuiteError lists every problem."""
    files = sorted((suite.parent / FOLDER).glob("*.toml"))
    if len(files) > MAX_FILES:
        raise SuiteError(
            (f"{suite.parent / FOLDER} holds {len(files)} files, and {MAX_FILES} are allowed",), fix="remove spent ones"
        )
    read = [(f"{suite.parent.name}/{FOLDER}/{file.name}", _read(file)) for file in files]
    return tuple(Acceptance(file=name, **table.model_dump()) for name, table in read)


def _read(file: Path) -> AcceptanceTable:
    problems = Problems(str(file))
    link = file if file.is_symlink() else file.parent
    if link.is_symlink():  # its owners would not see that the file behind it changed
        raise SuiteError((f"{link}: a link accepts nothing",), fix=f"remove {link}, then {WRITE}")
    try:
        table = problems.read(AcceptanceTable, read_document(file), "")
    except SuiteError as error:
        raise SuiteError(error.problems, fix=f"remove {file}, then {WRITE}") from None
    if table is None or problems.lines:
        raise SuiteError(tuple(problems.lines), fix=f"remove {file}, then {WRITE}")
    return table


def write_acceptance(suite: Path, difference: BarDifference, *, why: str, owner: str) -> Path:
    """Write the acceptance of ``difference``. UsageError if the file exists: nothing is overwritten."""
    file = suite.parent / FOLDER / f"{difference.digest[:16]}.toml"
    values = {"base": difference.base, "difference": difference.digest, "why": require_prose("--accept", why)}
    values["owner"] = require_prose("--owner", owner)
    if file.parent.is_symlink() or (file.parent.exists() and not file.parent.is_dir()):
        raise UsageError(f"{file.parent} is not a folder of the checkout", fix=f"remove {file.parent}")
    text = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
    try:
        file.parent.mkdir(exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(f"{file} exists", fix="remove it, and write it again with another WHY") from None
    except OSError as error:
        raise CannotCollectError(f"cannot write {file}: {error.strerror}", fix="make the folder writable") from None
    return file
