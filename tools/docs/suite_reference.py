"""Describe suite files for people (docs/reference.md) and editors (docs/schemas/suite-v1.json)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from flashcore_ci.model import options
from flashcore_ci.model.devices import ARCHITECTURES
from flashcore_ci.model.metrics import METRICS
from flashcore_ci.model.options import DEFAULTS
from flashcore_ci.suite.defaults import OWNER, PROTOCOL, RIDGE, STANDARD_GATES
from flashcore_ci.suite.tables import (
    AcceptsTable,
    GateTable,
    LimitTable,
    Name,
    ProtocolTable,
    RangeTable,
    RidgeTable,
    SubjectTable,
    Table,
    WorkloadTable,
)

SCHEMA = "suite-v1.json"


class BuildTable(Table):
    """``[build]``: how kernels are compiled."""

    architectures: tuple[Literal[tuple(ARCHITECTURES)], ...] = ()
    standard: Literal[options.STANDARDS] = DEFAULTS.standard
    optimization: Literal[options.LEVELS] = DEFAULTS.optimization
    fast_math: bool = False
    flush_denormals: bool = False
    precise_division: bool = True
    precise_square_root: bool = True
    fused_multiply_add: bool = True
    extended_lambda: bool = False
    relaxed_constexpr: bool = False
    hidden_symbols: bool = False
    defines: tuple[str, ...] = ()
    libraries: tuple[Literal[options.LIBRARIES], ...] = ()


class SuiteFile(Table):
    """A suite file as a whole."""

    name: Name
    ridge: RidgeTable
    protocol: ProtocolTable
    accepts: AcceptsTable | None = None
    build: BuildTable = BuildTable()
    subject: Annotated[list[SubjectTable], Field(min_length=1)]
    workload: Annotated[list[WorkloadTable], Field(min_length=1)]
    gate: Annotated[list[GateTable], Field(min_length=1)]


KEYS: dict[type[Table], dict[str, tuple[str, str]]] = {
    SuiteFile: {
        "name": ("The name of the suite.", "the file's name"),
        "ridge": ("The device whose roofline is used.", str(RIDGE["device"])),
        "protocol": ("How much is measured.", "see below"),
        "accepts": ("The evidence that counts. `require` needs it.", "evidence of any machine"),
        "build": ("How kernels are compiled that do not say it themselves.", "see below"),
        "subject": ("The kernels under test.", ""),
        "workload": ("The problems that they solve.", ""),
        "gate": ("The questions, each with its limits.", "the standard gates"),
    },
    BuildTable: {
        "architectures": ("The first that the suite's device runs.", "that of the device"),
        "standard": ("The C++ standard.", DEFAULTS.standard),
        "optimization": ("The level of `-O`.", str(DEFAULTS.optimization)),
        "fast_math": ("All of `--use_fast_math`.", "false"),
        "flush_denormals": ("Denormals become zero.", "false"),
        "precise_division": ("Divisions are rounded as IEEE 754 says.", "true"),
        "precise_square_root": ("Square roots are rounded as IEEE 754 says.", "true"),
        "fused_multiply_add": ("Multiplications and additions are fused.", "true"),
        "extended_lambda": ("Lambdas may run on the device.", "false"),
        "relaxed_constexpr": ("The device may call `constexpr` functions of the host.", "false"),
        "hidden_symbols": ("The library exports only what its source marks with default visibility.", "false"),
        "defines": ("`NAME` or `NAME=VALUE`.", "none"),
        "libraries": ("Libraries that are found on the machine and hashed.", "none"),
    },
    RidgeTable: {
        "device": ("The name of the device.", ""),
        "flops": ("Its peak in FLOP/s.", ""),
        "bandwidth": ("Its peak in byte/s.", ""),
        "link": ("The peak of one direction between GPUs in byte/s, for `link/share`.", "none"),
    },
    ProtocolTable: {
        "timing_processes": ("Fresh processes that time each workload.", str(PROTOCOL["timing_processes"])),
        "repeats": ("Launches whose outputs must have the same bits.", str(PROTOCOL["repeats"])),
        "timeouts": ("Seconds per process, by kind of evidence.", json.dumps(PROTOCOL["timeouts"])[1:-1].replace('"', "")),
    },
    AcceptsTable: {
        "devices": ("Names of devices.", ""),
        "driver": ("Versions of the driver.", ""),
        "tools": ("Versions of tools by name.", ""),
        "max_age_days": ("How old evidence may be for `require`.", ""),
    },
    RangeTable: {"from": ("The first version.", ""), "below": ("The first version that is too new.", "")},
    SubjectTable: {
        "name": ("The name of the kernel.", ""),
        "file": ("Its Python file, relative to the top folder.", "`NAME.py` in the folder `subjects` of pyproject.toml"),
        "trust": ("`full`, or `none` for a process of its own.", "`full`, with `candidate` `none`"),
        "candidate": ("The files of a kernel that is not trusted. The first has `run`.", "none"),
        "gpus": ("GPUs that run each workload together, 1 to 8 ([fleet.md](fleet.md#several-gpus-as-one-subject)).", "1"),
    },
    WorkloadTable: {
        "id": ("A stable name. `{n}` is the value of the parameter n, `{causal?-causal}` is text if it is true.", ""),
        "subject": ("The subject that solves it.", "the only subject"),
        "collect": ("The kinds of evidence to collect.", "all that a gate judges"),
        "roof": ("`compute`, `memory` or `balanced`.", "`balanced`"),
        "seed": ("The seed of its inputs.", "0"),
        "tags": ("Words that gates select by.", "none"),
        "params": ("Parameters for the subject.", "none"),
        "each": ("Lists of values. Every combination is a workload.", "none"),
        "cases": ("Tables of parameters. Each is a workload.", "one"),
    },
    GateTable: {
        "id": ("A name. That of a standard gate gives metric and limit.", ""),
        "title": ("The question in words.", "made from the metric"),
        "evidence": ("The kind of evidence.", "that of the metric"),
        "metric": ("What is judged.", "that of the standard gate"),
        "rule": ("How the value is compared with its limit.", "`<=` where less is better, `>=` for `sol/*`"),
        "limits": ("A list of limits. The first that matches a target counts.", "that of the standard gate"),
        "why": ("Why the gate exists.", "made from the metric"),
        "owner": ("Who decides about it.", OWNER),
        "statistic": ("What is computed from samples.", "that of the metric"),
        "min_samples": ("Samples that a spread needs.", "`timing_processes` for a spread, else 1"),
        "on": ("Globs of targets.", "all"),
        "roofs": ("Roofs of workloads.", "all"),
        "tags": ("Tags of workloads.", "all"),
    },
    LimitTable: {
        "value": ("The number.", ""),
        "unit": ("Its unit.", "that of the metric"),
        "on": ("A glob of targets.", "`*`"),
        "severity": ("`blocking` or `advisory`.", "`blocking`"),
        "why": ("The reason for this limit.", "none"),
    },
}
"""Each key: what it is, and its default. A key with "" is needed."""
TITLES = {
    SuiteFile: "top",
    BuildTable: "[build]",
    RidgeTable: "[ridge]",
    ProtocolTable: "[protocol]",
    AcceptsTable: "[accepts]",
    RangeTable: "a range of versions",
    SubjectTable: "[[subject]]",
    WorkloadTable: "[[workload]]",
    GateTable: "[[gate]]",
    LimitTable: "a limit",
}


def key_rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield table, key, meaning and default."""
    for table, keys in KEYS.items():
        for key, (meaning, default) in keys.items():
            yield TITLES[table], f"`{key}`", meaning, default or "needed"


def standard_rows() -> Iterator[tuple[str, str, str]]:
    """Yield the id, metric and limit of each standard gate."""
    for gate, (metric, value) in STANDARD_GATES.items():
        unit = "%" if METRICS[metric].sampled else METRICS[metric].unit
        yield f"`{gate}`", f"`{metric}`", f"{value:g} {unit}"


def schema_text() -> str:
    """Return the JSON schema of a suite file. What has a default is optional."""
    schema = SuiteFile.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    for table, keys in KEYS.items():
        part = schema if table is SuiteFile else definitions[table.__name__]
        part["description"] = (table.__doc__ or "").splitlines()[0].replace("``", "")
        part["required"] = [key for key, (_, default) in keys.items() if not default]
        for key, (meaning, default) in keys.items():
            part["properties"][key]["description"] = f"{meaning} Default: {default}." if default else meaning
    definitions["GateTable"]["properties"]["metric"]["enum"] = list(METRICS)
    whole: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "flashcore-ci suite"}
    return json.dumps(whole, indent=2, sort_keys=True) + "\n"
