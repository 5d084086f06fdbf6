"""The tables of a suite file for pydantic. ``check`` compares them."""

from __future__ import annotations

import datetime as dt
import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import UsageError
from flashcore_ci.model.suite import MAX_GPUS, Kind, Roof, Rule, Scalar, Severity, Statistic, Trust

MAX_PARAMETER = 120
MAX_SECONDS = 24 * 3600.0
MAX_ROWS = 500
"""Of one list. The longest that is committed has 20."""
RELATIVE = {"slowdown/primary": Statistic.SLOWDOWN, "drift/primary": Statistic.DRIFT}
"""Metrics with a statistic of their own, which compares measurements."""
Template = Annotated[str, StringConstraints(min_length=1, max_length=300)]


def _parameter(value: Any) -> Scalar:
    if isinstance(value, str) and len(value) > MAX_PARAMETER:
        raise ValueError(f"a parameter has at most {MAX_PARAMETER} characters")
    if isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError("a parameter is text, a finite number, true or false")


def _prose(text: str) -> str:
    if not any(character.isalnum() for character in text):
        raise ValueError("text is needed")
    return text


def require_prose(option: str, text: str) -> str:
    """Return printable ``text``. UsageError if it says nothing."""
    try:
        return _prose("".join(character for character in " ".join(text.split()) if character.isprintable()))
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}", fix=f"give {option} words that a reviewer can read") from None


Text = Annotated[str, StringConstraints(min_length=1)]
Prose = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(_prose)]
"""What a person wrote, and can be seen."""
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=120)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Parameter = Annotated[Any, AfterValidator(_parameter)]
Path = Annotated[str, StringConstraints(pattern=r"^[^\x00]+$")]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Table(BaseModel):
    """A TOML table: exact types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class RidgeTable(Table):
    """``[ridge]``: the device, and its datasheet for the check of roofs (by default that of ``model/devices.py``).

    ``link``: byte/s of one direction between GPUs, of which ``link/share`` is a share.
    """

    device: Text
    flops: Positive | None = None
    bandwidth: Positive | None = None
    link: Positive | None = None


Version = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9}){0,9}$")]


class RangeTable(Table):
    """Versions: ``from`` one, ``below`` another."""

    first: Annotated[Version, Field(alias="from")]
    below: Version


class AcceptsTable(Table):
    """``[accepts]``: the evidence that counts."""

    devices: Annotated[list[Text], Field(min_length=1)]
    driver: RangeTable
    tools: Annotated[dict[Text, RangeTable], Field(min_length=1)]
    max_age_days: Annotated[float, Field(gt=0, le=366, allow_inf_nan=False)]


class ProtocolTable(Table):
    """``[protocol]``: how much to measure. ``timeouts`` are seconds per process."""

    timing_processes: Annotated[int, Field(ge=1, le=1000)]
    repeats: Annotated[int, Field(ge=1, le=1000)]
    timeouts: dict[Kind, Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]]


class SubjectTable(Table):
    """``[[subject]]``."""

    name: Name
    file: Path
    trust: Trust | None = None
    candidate: Annotated[list[Path], Field(max_length=MAX_ROWS)] = []
    gpus: Annotated[int, Field(ge=1, le=MAX_GPUS)] = 1


class WorkloadTable(Table):
    """``[[workload]]``: one workload, or a family with ``each`` and ``cases``."""

    id: Template
    subject: Template
    collect: Annotated[list[Kind], Field(min_length=1)]
    roof: Roof = Roof.BALANCED
    seed: Annotated[int, Field(ge=0)] = 0
    tags: Annotated[list[Template], Field(max_length=50)] = []
    params: dict[str, Parameter] = {}
    each: dict[str, Annotated[list[Parameter], Field(min_length=1)]] = {}
    cases: Annotated[list[dict[str, Parameter]], Field(min_length=1)] = [{}]


class LimitTable(Table):
    """A row of a gate's ``limits``."""

    value: Finite
    unit: Text
    on: Text = "*"
    severity: Severity = Severity.BLOCKING
    why: str = ""


class GateTable(Table):
    """``[[gate]]``."""

    id: Name
    title: Text
    evidence: Kind
    metric: Text
    rule: Rule
    limits: Annotated[list[LimitTable], Field(min_length=1, max_length=MAX_ROWS)]
    why: Prose
    owner: Prose
    statistic: Statistic = Statistic.VALUE
    min_samples: Count = 1
    on: Annotated[list[Text], Field(min_length=1, max_length=MAX_ROWS)] = ["*"]
    roofs: Annotated[list[Roof], Field(max_length=MAX_ROWS)] = []
    tags: Annotated[list[Text], Field(max_length=MAX_ROWS)] = []


Tables = Annotated[list[dict[str, Any]], Field(min_length=1)]
"""Each table is read on its own, so that one wrong table does not hide mistakes in the others."""


class SuiteTable(Table):
    """A suite file."""

    name: Name
    ridge: RidgeTable
    protocol: ProtocolTable
    accepts: AcceptsTable | None = None
    build: dict[str, Any] = {}
    subject: Tables
    workload: Tables
    gate: Tables


class WaiverTable(Table):
    """``[[waiver]]`` of ``waivers.toml``."""

    gate: Text
    target: Text
    reason: Prose
    owner: Prose
    codes: Annotated[list[Code], Field(min_length=1)] = [Code.OVER_LIMIT, Code.UNDER_LIMIT]
    expires: dt.date | None = None
    pair: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12}\.\.[0-9a-f]{12}$")] = ""
    finding: str = ""


class WaiversTable(Table):
    """``waivers.toml``."""

    waiver: list[dict[str, Any]] = []
