"""Read and write ``anchor.toml`` next to the suite: the anchors of its history, the newest last."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from flashcore_ci.model.anchor import Pin, PinLink, PinnedCode
from flashcore_ci.model.errors import CannotCollectError, SuiteError
from flashcore_ci.suite.loader import read_document
from flashcore_ci.suite.problems import Problems
from flashcore_ci.suite.tables import Prose, Table, Text

FILE = "anchor.toml"
FIX = "correct the file, or restore it from git"
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Ratio = Annotated[float, Field(ge=-100, le=100, allow_inf_nan=False)]


class CodeTable(Table):
    """``[anchor.workload.ID]``."""

    subject: Text
    machine_code: Digest
    launcher: Digest
    binding: Digest
    source: Digest


class LinkTable(Table):
    """``[[anchor.link]]``: log(this anchor / the one before)."""

    workload: Text
    machine_class: Text
    log_ratio: Ratio
    standard_error: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
    df: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
    rounds: Annotated[int, Field(ge=0, le=100_000)]


class PinTable(Table):
    """``[[anchor]]``."""

    suite: Text
    commit: Commit
    since: dt.date
    reason: Prose
    owner: Prose
    compiler: Text
    tools: dict[Text, Text] = Field(default_factory=dict)
    workload: Annotated[dict[Text, CodeTable], Field(min_length=1)]
    link: list[LinkTable] = Field(default_factory=list)


class AnchorsTable(Table):
    """``anchor.toml``."""

    anchor: list[PinTable] = Field(default_factory=list)


def file_of(suite: Path) -> Path:
    """Return the file of this suite's anchors."""
    return suite.parent / FILE


def read_anchors(suite: Path) -> tuple[Pin, ...]:
    """Read the anchors next to ``suite``, the oldest first. SuiteError lists every problem."""
    file = file_of(suite)
    if file.is_symlink() or file.parent.is_symlink():  # its owners would not see that the file behind it changed
        raise SuiteError((f"{file}: a link pins nothing",), fix="write a plain file")
    if not file.exists():
        return ()
    problems = Problems(str(file))
    table = problems.read(AnchorsTable, read_document(file), "")
    if table is None or problems.lines:
        raise SuiteError(tuple(problems.lines), fix=FIX)
    for before, after in zip(table.anchor, table.anchor[1:], strict=False):
        if after.since < before.since:
            raise SuiteError(
                (f"{file}: the anchor of {after.since} comes after that of {before.since}",), fix="put the newest last"
            )
    return tuple(map(_pin, table.anchor))


def _pin(table: PinTable) -> Pin:
    values = table.model_dump(exclude={"workload", "link", "since", "tools"})
    return Pin(
        **values,
        since=table.since.isoformat(),
        tools=tuple(sorted(table.tools.items())),
        codes={name: PinnedCode(**code.model_dump()) for name, code in table.workload.items()},
        links=tuple(PinLink(**link.model_dump()) for link in table.link),
    )


def append_anchor(suite: Path, pin: Pin) -> Path:
    """Add the newest anchor. Earlier ones stay as they are. CannotCollectError if the file cannot be written."""
    file = file_of(suite)
    read_anchors(suite)
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write("\n".join(("", *_lines(pin)) if stream.tell() else _lines(pin)) + "\n")  # its last line may have no end
    except OSError as error:
        raise CannotCollectError(f"cannot write {file}: {error.strerror}", fix="make the folder writable") from None
    return file


def _lines(pin: Pin) -> Iterator[str]:
    yield "[[anchor]]"
    for name in ("suite", "commit", "reason", "owner", "compiler"):
        yield _line(name, getattr(pin, name))
    yield f"since = {pin.since}"
    yield "tools = {" + ", ".join(f"{_text(name)} = {_text(version)}" for name, version in pin.tools) + "}"
    for workload, code in pin.codes.items():
        yield f"\n[anchor.workload.{_text(workload)}]"
        yield from (_line(name, getattr(code, name)) for name in PinnedCode.__slots__)
    for link in pin.links:
        yield "\n[[anchor.link]]"
        yield from (_line(name, getattr(link, name)) for name in PinLink.__slots__)
    yield ""


def _line(name: str, value: Any) -> str:
    return f"{name} = {_text(value) if isinstance(value, str) else repr(value)}"


def _text(text: str) -> str:
    return json.dumps("".join(c for c in " ".join(text.split()) if c.isprintable()), ensure_ascii=False)
