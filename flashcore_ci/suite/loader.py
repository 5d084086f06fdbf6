"""TOML in, a checked ``Suite`` or all problems out."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from flashcore_ci.bounded import files
from flashcore_ci.bounded.values import refuse_large, shorten
from flashcore_ci.model import options
from flashcore_ci.model.devices import GPUS
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.metrics import LINK_SHARE
from flashcore_ci.model.suite import (
    Accepts,
    Gate,
    Limit,
    Protocol,
    Ridge,
    SubjectRef,
    Suite,
    Trust,
    VersionRange,
    Waiver,
    Workload,
)
from flashcore_ci.suite import check, subject_text
from flashcore_ci.suite.defaults import complete
from flashcore_ci.suite.expand import expand, size_of
from flashcore_ci.suite.lines import lines_of
from flashcore_ci.suite.problems import Problems, key_of, suggest
from flashcore_ci.suite.project import FILE as PROJECT
from flashcore_ci.suite.project import TABLE, read_project
from flashcore_ci.suite.tables import (
    AcceptsTable,
    GateTable,
    RidgeTable,
    SubjectTable,
    SuiteTable,
    WaiversTable,
    WaiverTable,
    WorkloadTable,
)

M = TypeVar("M", bound=BaseModel)
WAIVERS = "waivers.toml"
LISTS = {"subject": SubjectTable, "workload": WorkloadTable, "gate": GateTable}
MAX_SUITE = 512 * files.KIB
MAX_LINE, MAX_DOTS = 4096, 200
MAX_WORKLOADS = 2000
MAX_TABLES = 500
NO_SUITE = f'give --suite FILE, or write suite = "FILE" in {TABLE} of {PROJECT}'
"""The largest suite that is committed has 24 KiB and 60 workloads."""


def load(path: Path, *, root: Path, runs: bool = True) -> Suite:
    """Load the suite and the waivers next to it, with paths relative to ``root``. SuiteError lists every mistake.

    Without ``runs`` it judges recorded evidence only, so the subjects' files are not read.
    """
    reader = _Reader(Problems(_shown(path, root)))
    text = read_text(path)
    reader.problems.places = lines_of(text)
    document = reader.problems.correct(SuiteTable, parse(text, reader.problems.file), "", LISTS)
    made = complete(document, stem=path.stem, subjects=read_project(root).subjects)
    top = made.document
    head = reader.problems.read(SuiteTable, top, "")
    subjects = reader.subjects(reader.tables(top, "subject", SubjectTable), root)
    workloads = reader.workloads(reader.tables(top, "workload", WorkloadTable))
    if runs:
        reader.subject_files(subjects, workloads, root)
    workloads = {name: check.on_gpus(reader.problems, top, workload) for name, workload in workloads.items()}
    gates = reader.gates(reader.tables(top, "gate", GateTable))
    protocol = head.protocol if head else None
    check.check(reader.problems, top, subjects=subjects, workloads=workloads, gates=gates, protocol=protocol)
    waiver_problems, waivers = _waivers(path.parent / WAIVERS, root, reader, gates)
    ridge = _ridge(head.ridge, reader.problems) if head else None
    gates = {name: _with_peak(gate, ridge, reader.problems) for name, gate in gates.items()}
    build = top.get("build", {})
    for mistake in options.mistakes(build if isinstance(build, dict) else {}):  # also where the head has other mistakes
        reader.problems.add("build", mistake)
    problems = (*reader.problems.lines, *waiver_problems)
    if problems or head is None or ridge is None:
        raise SuiteError(problems, fix="correct the file, then run `flashcore-ci plan`")
    for key in ("name", "ridge", "protocol"):
        reader.remember(key, key)
    timeouts = tuple(sorted(head.protocol.timeouts.items()))
    return Suite(
        name=head.name,
        file=reader.problems.file,
        subjects=tuple(subjects.values()),
        workloads=tuple(workloads.values()),
        gates=tuple(gates.values()),
        waivers=waivers,
        ridge=ridge,
        protocol=Protocol(**{**head.protocol.model_dump(), "timeouts": timeouts}),
        sources=tuple(reader.sources.items()),
        accepts=_accepts(head.accepts),
        build=options.read(head.build),
        defaults=tuple(made.filled),
    )


def read_document(path: Path, *, shown: str = "") -> dict[str, Any]:
    """Read the TOML in ``path``, which errors call ``shown``. SuiteError on failure."""
    return parse(read_text(path), shown or str(path))


def read_text(path: Path) -> str:
    """Read a suite file. SuiteError if there is none, or no text."""
    try:
        return files.read(path, limit=MAX_SUITE).decode("utf-8")
    except FileNotFoundError:
        there = [file.name for file in sorted(path.parent.glob("*.toml")) if file.name != WAIVERS]
        raise SuiteError((f"{path}: there is no such file{suggest(path.name, there)}",), fix=NO_SUITE) from None
    except OSError as error:
        raise SuiteError((f"{path}: cannot be read: {error.strerror}",), fix="give --suite FILE") from None
    except ValueError as error:
        raise SuiteError((shorten(f"{path}: not valid TOML: {error}"),), fix="correct the file") from None


def parse(text: str, shown: str) -> dict[str, Any]:
    """Decode TOML, which errors call ``shown``. SuiteError on failure."""
    try:
        return _decode(text)
    except (ValueError, RecursionError) as error:
        raise SuiteError((shorten(f"{shown}: not valid TOML: {error}"),), fix="correct the file") from None


def _decode(text: str) -> dict[str, Any]:
    """Decode TOML. ValueError for what takes too long, is too deep or too large."""
    if text.startswith("\ufeff"):
        raise ValueError("it begins with a byte order mark: save it as UTF-8 without BOM")
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE or line.count(".") > MAX_DOTS:  # a dotted key takes time by the square of its parts
            raise ValueError(f"line {number} has more than {MAX_LINE} characters or {MAX_DOTS} dots")
    document = tomllib.loads(text)
    refuse_large(document)
    return document


@dataclass(slots=True)
class _Reader:
    """One file: its problems, and the key of each value."""

    problems: Problems
    sources: dict[str, str] = field(default_factory=dict)

    def remember(self, what: str, key: str) -> None:
        self.sources[what] = f"{self.problems.file}:{key}"

    def tables(self, top: dict[str, Any], name: str, model: type[M]) -> list[tuple[str, M]]:
        keyed = [(key_of(name, index, table), table) for index, table in check.tables_of(top, name)]
        if len(keyed) > MAX_TABLES:
            self.problems.add(name, f"it has {len(keyed)} tables, and {MAX_TABLES} are allowed")
            return []
        read = [(key, self.problems.read(model, table, key)) for key, table in keyed]
        return [(key, table) for key, table in read if table is not None]

    def subjects(self, tables: list[tuple[str, SubjectTable]], root: Path) -> dict[str, SubjectRef]:
        found: dict[str, SubjectRef] = {}
        for key, table in tables:
            if table.name in found:
                self.problems.add(key, f'the name "{table.name}" is given twice')
            for place, file in (("file", table.file), *(("candidate", file) for file in table.candidate)):
                if Path(file).is_absolute() or not files.resolve(root / file).is_relative_to(files.resolve(root)):
                    self.problems.add(f"{key}.{place}", f"{file} is not a path inside the checkout")
                elif not (root / file).is_file():
                    self.problems.add(f"{key}.{place}", f"{file}: there is no such file in {root}")
            trust = table.trust or (Trust.NONE if table.candidate else Trust.FULL)
            check.check_trust(self.problems, key, table, trust, root)
            found[table.name] = SubjectRef(name=table.name, file=table.file, trust=trust, candidate=tuple(table.candidate))
            self.remember(f"subject {table.name}", key)
        return found

    def subject_files(self, subjects: dict[str, SubjectRef], workloads: dict[str, Workload], root: Path) -> None:
        """Report what is wrong in the subjects' files. It needs no GPU, and runs none of their code."""
        for subject in subjects.values():
            params = {workload.id: dict(workload.params) for workload in workloads.values() if workload.subject == subject.name}
            for file, names in _functions_in(subject, measured=bool(params)):
                if not files.resolve(root / file).is_relative_to(files.resolve(root)):
                    continue  # reported above
                try:
                    text = files.read(root / file, limit=files.MAX_SOURCE).decode("utf-8")
                except (OSError, ValueError):
                    continue  # reported above, or by the worker
                for line, mistake in subject_text.mistakes(text, subject_text.Part(needed=names, workloads=params)):
                    self.problems.add_line(f"{file}:{line}: {mistake}")

    def workloads(self, tables: list[tuple[str, WorkloadTable]]) -> dict[str, Workload]:
        found: dict[str, Workload] = {}
        for key, table in tables:
            if (count := size_of(table)) > MAX_WORKLOADS - len(found):
                self.problems.add(key, f"it is {count} workloads, and a suite has at most {MAX_WORKLOADS}")
                continue
            try:
                expanded = list(expand(table))
            except KeyError as error:
                names = {*table.params, *table.each, *(name for case in table.cases for name in case)}
                self.problems.add(f"{key}.id", f"{{{error.args[0]}}} is not given in every case{suggest(error.args[0], names)}")
                continue
            except ValueError as error:
                self.problems.add(f"{key}.id", str(error))
                continue
            for workload in expanded:
                if not check.is_name(workload.id):
                    self.problems.add(f"{key}.id", f'"{workload.id}" is not an id: use letters, digits, dot, dash and underscore')
                if workload.id in found:
                    where = self.sources[f"workload {workload.id}"]
                    self.problems.add(f"{key}.id", f'the id "{workload.id}" is given twice (also in {where})')
                found[workload.id] = workload
                self.remember(f"workload {workload.id}", key)
        return found

    def gates(self, tables: list[tuple[str, GateTable]]) -> dict[str, Gate]:
        found: dict[str, Gate] = {}
        for key, table in tables:
            found[table.id] = _gate(table)
            self.remember(f"gate {table.id}", key)
            for index, limit in enumerate(table.limits):
                self.remember(f"limit {table.id} {limit.on}", f"{key}.limits[{index}]")
        return found


def _ridge(table: RidgeTable, problems: Problems) -> Ridge | None:
    """Complete the datasheet of a known device."""
    gpu = GPUS.get(table.device)
    flops, bandwidth = table.flops or (gpu.flops if gpu else None), table.bandwidth or (gpu.bandwidth if gpu else None)
    if flops is None or bandwidth is None:
        problems.add("ridge", f"give flops and bandwidth: {table.device!r} is not a known device{suggest(table.device, GPUS)}")
        return None
    return Ridge(device=table.device, flops=flops, bandwidth=bandwidth, link=table.link)


def _with_peak(gate: Gate, ridge: Ridge | None, problems: Problems) -> Gate:
    """Name the ceiling of which the gate judges a share."""
    if gate.metric != LINK_SHARE or ridge is None:
        return gate
    if ridge.link is None:
        problems.add("ridge", f"give link, the byte/s of one direction between GPUs: {gate.id} judges a share of it")
    return replace(gate, peak=ridge.link)


def _accepts(table: AcceptsTable | None) -> Accepts | None:
    if table is None:
        return None
    tools = tuple(sorted((name, VersionRange(**each.model_dump())) for name, each in table.tools.items()))
    driver = VersionRange(**table.driver.model_dump())
    return Accepts(devices=tuple(table.devices), driver=driver, tools=tools, max_age_days=table.max_age_days)


def _functions_in(subject: SubjectRef, *, measured: bool) -> list[tuple[str, tuple[str, ...]]]:
    """Say which functions each file of a subject needs. What is only built needs no others."""
    needed = ("build", "problem", *subject_text.MEASURED) if measured else ("build",)
    if not subject.candidate:
        return [(subject.file, needed)]
    return [(subject.file, tuple(name for name in needed if name != "run")), (subject.candidate[0], ("run",))]


def _gate(table: GateTable) -> Gate:
    lists = {"on": tuple(table.on), "roofs": tuple(table.roofs), "tags": tuple(table.tags)}
    limits = tuple(Limit(**limit.model_dump()) for limit in table.limits)
    return Gate(**{**table.model_dump(), **lists, "limits": limits})


def _waivers(path: Path, root: Path, suite: _Reader, gates: dict[str, Gate]) -> tuple[list[str], tuple[Waiver, ...]]:
    if not path.exists():
        return [], ()
    text = read_text(path)
    reader = _Reader(Problems(_shown(path, root), places=lines_of(text)), suite.sources)
    top = parse(text, reader.problems.file)
    reader.problems.read(WaiversTable, top, "")
    waivers = {}
    for key, table in reader.tables(top, "waiver", WaiverTable):
        if (table.gate, table.target) in waivers:
            reader.problems.add(key, f"{table.gate} on {table.target} is waived twice")
        if (table.expires is None) == (not table.pair):
            reader.problems.add(key, "a waiver needs either a last day (expires) or the pair of builds in the verdict (pair)")
        check.check_waiver(reader.problems, key, table, gates.get(table.gate))
        expires = table.expires.isoformat() if table.expires else ""
        changed = {"expires": expires, "codes": tuple(table.codes)}
        waivers[table.gate, table.target] = Waiver(**{**table.model_dump(), **changed})
        reader.remember(f"waiver {table.gate} {table.target}", key)
    return reader.problems.lines, tuple(waivers.values())


def _shown(path: Path, root: Path) -> str:
    whole, base = files.resolve(path), files.resolve(root)
    return whole.relative_to(base).as_posix() if whole.is_relative_to(base) else str(path)
