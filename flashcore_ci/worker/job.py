"""The two files that a worker and its parent exchange."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashcore_ci.model.codes import Code

JOB_SCHEMA = "job-v1"
RESULT_SCHEMA = "result-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A subject to import: its file, and its built library (None: it has no machine code of its own)."""

    name: str
    file: Path
    library: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A workload as the worker needs it."""

    id: str
    subject: str
    params: dict[str, Any]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to do. ``digest`` is of the job file; the result repeats it and the ``nonce``, so that no other can pass for it."""

    kind: str
    nonce: str
    digest: str
    root: Path
    subjects: tuple[Subject, ...]
    workloads: tuple[Work, ...]
    options: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> Job:
        """Read the file; ValueError when it is no job of this version."""
        data = path.read_bytes()
        content = json.loads(data)
        if content.get("schema") != JOB_SCHEMA:
            raise ValueError(f"{path} is no {JOB_SCHEMA}")
        return cls(
            kind=content["kind"],
            nonce=content["nonce"],
            digest=hashlib.sha256(data).hexdigest(),
            root=Path(content["root"]),
            subjects=tuple(
                Subject(
                    name=subject["name"],
                    file=Path(subject["file"]),
                    library=None if subject["library"] is None else Path(subject["library"]),
                )
                for subject in content["subjects"]
            ),
            workloads=tuple(Work(**workload) for workload in content["workloads"]),
            options=content["options"],
        )


class Result:
    """The result file as it grows."""

    def __init__(self, job: Job, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = {
            "schema": RESULT_SCHEMA,
            "kind": job.kind,
            "nonce": job.nonce,
            "job": job.digest,
            "environment": {},
            "started": None,
            "finished": False,
            "outcomes": {},
        }

    def environment(self, **facts: str | int) -> None:
        """Add facts about the machine."""
        self.content["environment"].update(facts)

    def start(self, name: str) -> None:
        """Say, on the disk, what is in flight from now on."""
        self.content["started"] = name
        self.write()

    def finish(self, name: str, outcome: dict[str, Any]) -> None:
        """Keep the outcome of what was in flight."""
        self.content["outcomes"][name] = spelled(outcome)
        self.content["started"] = None
        self.write()

    def done(self) -> None:
        """Say that the job came to its end."""
        self.content["finished"] = True
        self.write()

    def write(self) -> None:
        """Replace the file."""
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(self.content, separators=(",", ":"), allow_nan=False), encoding="utf-8")
        temporary.replace(self.path)


def number(value: float) -> float | str:
    """A number as JSON can carry it: ``"nan"``, ``"inf"`` and ``"-inf"`` are words, which the parent reads as such."""
    return float(value) if math.isfinite(value) else str(float(value))


def spelled(value: Any) -> Any:
    """A value of JSON in which every float has gone through ``number``."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return {key: spelled(item) for key, item in value.items()}
    return [spelled(item) for item in value] if isinstance(value, list | tuple) else value


def missing(code: Code, message: str) -> dict[str, Any]:
    """The outcome of a workload that gave no number."""
    return {"missing": {"code": code.value, "message": message}}
