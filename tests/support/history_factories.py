"""Runs for the tests of the history, over the world of ``factories``."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from evidence_factories import good_evidence, good_observation, make_provenance
from factories import make_build, make_plan
from report_factories import make_verdict

from flashcore_ci.history import address, database, writing
from flashcore_ci.history.rows import NewRun, RunRows, rows_of
from flashcore_ci.history.writing import Added
from flashcore_ci.model.evidence import Evidence, Observation
from flashcore_ci.model.history import Commit, Standing
from flashcore_ci.model.reading import Samples
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Outcome
from flashcore_ci.store.codec import canonical

sys.path.append(str(Path(__file__).parents[2] / "tools/study"))
from history_size import made_run

PLAN = make_plan()
BUILD = make_build()
VERDICTS = (make_verdict("finite", "big"), make_verdict("memcheck", "big", Outcome.FAIL))

__all__ = [
    "BUILD",
    "PLAN",
    "VERDICTS",
    "add",
    "compared",
    "evidence_of",
    "made_run",
    "migrated_url_of",
    "new_run",
    "standings",
    "url_of",
]


def url_of(folder: Path) -> str:
    """The address of a database in this folder."""
    return f"sqlite:///{folder}/history.db"


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        database.upgrade(address.parse(url_of(Path(folder)), {}))
        return (Path(folder) / "history.db").read_bytes()


def migrated_url_of(folder: Path) -> str:
    """The address of a database that has its tables. Migrating takes longer than a test."""
    (folder / "history.db").write_bytes(_empty())
    return url_of(folder)


def compared(base=(1.0, 1.01, 1.02), head=(1.02, 1.03, 1.05), **changes) -> Observation:
    """A comparison of the workload ``big``, whose roof is memory."""
    samples = tuple(
        (f"{side}/time/gpu/cold", Samples(values=values, unit="ms")) for side, values in (("base", base), ("head", head))
    )
    observation = good_observation(PLAN, BUILD, Kind.COMPARISON, "big", samples=samples, readings=())
    identity = replace(observation.identity, machine_code="the base's")
    return replace(observation, **{"base": identity, **changes})


def evidence_of(*more: Observation, **provenance) -> Evidence:
    """Good evidence with further observations."""
    evidence = good_evidence(PLAN)
    return replace(evidence, provenance=make_provenance(**provenance), observations=(*evidence.observations, *more))


def new_run(evidence: Evidence | None = None, **changes) -> NewRun:
    """A run to store."""
    evidence = evidence or evidence_of()
    values = {
        "plan": PLAN,
        "evidence": evidence,
        "verdicts": VERDICTS,
        "outcome": Outcome.FAIL,
        "headline": "FAIL: one check",
        "commit": Commit(
            sha=evidence.provenance.commit, parent="f" * 40, position=7, committed_at=1_700_000_000, subject="kernel: x"
        ),
        "added_at": 1_800_000_000,
        "digest": hashlib.sha256(canonical(evidence)).hexdigest(),
        "standing": Standing.PROTECTED,
    }
    return NewRun(**{**values, **changes})


def add(url: str, *runs: NewRun | RunRows) -> list[Added]:
    """Store the runs, each in its own transaction."""
    rows = [run if isinstance(run, RunRows) else rows_of(run) for run in runs]
    return [database.write(address.parse(url, {}), lambda connection, one=one: writing.add_run(connection, one)) for one in rows]


def standings(url: str) -> list[Standing]:
    """The standings of all runs."""
    from flashcore_ci.history import queries

    with database.reading(address.parse(url, {})) as connection:
        return [run.standing for run in queries.runs(connection)]
