"""Read the job file and write the result file."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashcore_ci.model import strict_json
from flashcore_ci.model.codes import Code

JOB_SCHEMA = "job-v1"
RESULT_SCHEMA = "result-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A subject to import, and its library. With ``candidate`` (files, the first is loaded) ``run`` is isolated."""

    name: str
    file: Path
    library: Path | None
    candidate: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One workload of a job."""

    id: str
    subject: str
    params: dict[str, Any]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to do. ``digest`` and ``nonce`` bind the result to it. ``folder`` holds job and result.

    ``root`` is the measured checkout of ``repository``.
    """

    kind: str
    nonce: str
    digest: str
    root: Path
    folder: Path
    subjects: tuple[Subject, ...]
    workloads: tuple[Work, ...]
    options: dict[str, Any]
    repository: Path | None = None

    @classmethod
    def read(cls, path: Path) -> Job:
        """Read a job file. ValueError if it has another schema."""
        data = path.read_bytes()
        content = strict_json.loads(data)
        if content.get("schema") != JOB_SCHEMA:
            raise ValueError(f"{path} has the schema {content.get('schema')!r}, not {JOB_SCHEMA!r}")
        return cls(
            kind=content["kind"],
            nonce=content["nonce"],
            digest=hashlib.sha256(data).hexdigest(),
            root=Path(content["root"]),
            folder=path.parent,
            subjects=tuple(_subject(subject) for subject in content["subjects"]),
            workloads=tuple(Work(**workload) for workload in content["workloads"]),
            options=content["options"],
            repository=Path(content.get("repository", content["root"])),
        )


def _subject(content: dict[str, Any]) -> Subject:
    library = None if content["library"] is None else Path(content["library"])
    return Subject(
        name=content["name"], file=Path(content["file"]), library=library, candidate=tuple(content.get("candidate", ()))
    )


class Result:
    """The result file, written again after every step."""

    def __init__(self, job: Job, path: Path) -> None:
        self.path = path
        bound = {"schema": RESULT_SCHEMA, "kind": job.kind, "nonce": job.nonce, "job": job.digest}
        self.content: dict[str, Any] = {**bound, "environment": {}, "started": None, "finished": False, "outcomes": {}}

    def environment(self, **facts: str | int) -> None:
        """Add facts about the machine."""
        self.content["environment"].update(facts)

    def start(self, name: str) -> None:
        """Record on disk what is in flight."""
        self.content["started"] = name
        self.write()

    def finish(self, name: str, outcome: dict[str, Any]) -> None:
        """Record the outcome of what was in flight."""
        self.content["outcomes"][name] = json_value(outcome)
        self.content["started"] = None
        self.write()

    def done(self) -> None:
        """Record that the job is complete."""
        self.content["finished"] = True
        self.write()

    def write(self) -> None:
        """Replace the file atomically."""
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(self.content, separators=(",", ":"), allow_nan=False), encoding="utf-8")
        temporary.replace(self.path)


def json_number(value: float) -> float | str:
    """Return a float, or ``"nan"``, ``"inf"`` or ``"-inf"``."""
    return float(value) if math.isfinite(value) else str(float(value))


def json_value(value: Any) -> Any:
    """Apply ``json_number`` to every float in a JSON value."""
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    return [json_value(item) for item in value] if isinstance(value, list | tuple) else value


def missing(code: Code, message: str) -> dict[str, Any]:
    """Return the outcome of a failed workload."""
    return {"missing": {"code": code.value, "message": message}}
