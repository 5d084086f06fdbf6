"""Evidence of a few kilobytes that every verdict, and every format, repeats."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from attacking import Attack, AttackClass
from evidence_factories import make_device, make_observation, make_provenance
from factories import make_waiver
from report_factories import make_verdict

from flashcore_ci.bounded import values
from flashcore_ci.model.codes import Code
from flashcore_ci.model.dossier import Dossier, Excerpt
from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.evidence import Finding
from flashcore_ci.model.plan import Excluded
from flashcore_ci.model.reading import Measured, Missing
from flashcore_ci.model.verdict import Origin, Outcome, Reason, Report
from flashcore_ci.run import evidence as recorded
from flashcore_ci.run import reports

TEXT = "x" * values.MAX_TEXT
TIMES = reports.MAX_WEIGHT // len(TEXT) + 1
MAX_ORIGIN = 400


def report(**changes: object) -> Report:
    plain = {"suite": "s", "tool": "1", "as_of": "2026-11-22T00:00:00Z", "outcome": Outcome.PASS, "exit_code": 0, "headline": "h"}
    return Report(**{**plain, "verdicts": (), "excluded": (), "waivers": (), "builds": (), "provenance": None, **changes})


def verdicts(**changes: object) -> Report:
    """A verdict that is repeated: its texts are in memory once, and in the reports each time."""
    return report(verdicts=(make_verdict(**changes),) * TIMES)


FINDING = Finding(tool="memcheck", message=TEXT)
RECORDS: dict[str, Callable[[], tuple[object, ...]]] = {
    "an origin in every verdict": lambda: (verdicts(origin=Origin(kind="recorded", detail=TEXT)),),
    "a message in every verdict": lambda: (verdicts(reason=Reason(code=Code.CRASH, message=TEXT)),),
    "a fact in every verdict": lambda: (verdicts(reason=Reason(code=Code.CRASH, message="m", facts=(("f", TEXT),))),),
    "a note in every verdict": lambda: (verdicts(notes=(TEXT,)),),
    "a finding in every verdict": lambda: (verdicts(findings=(FINDING,)),),
    "a missing reading in every verdict": lambda: (verdicts(reading=Missing(code=Code.CRASH, message=TEXT)),),
    "a target in every verdict": lambda: (verdicts(target=TEXT),),
    "a title in every verdict": lambda: (verdicts(title=TEXT),),
    "notes in one verdict": lambda: (report(verdicts=(make_verdict(notes=(TEXT,) * TIMES),)),),
    "findings in one verdict": lambda: (report(verdicts=(make_verdict(findings=(FINDING,) * TIMES),)),),
    "facts in one verdict": lambda: (
        report(verdicts=(make_verdict(reason=Reason(code=Code.CRASH, message="m", facts=(("f", TEXT),) * TIMES)),)),
    ),
    "notes of the report": lambda: (report(notes=(TEXT,) * TIMES),),
    "excluded checks": lambda: (report(excluded=(Excluded(gate="g", target="t", why=TEXT),) * TIMES),),
    "waivers": lambda: (report(waivers=(make_waiver(reason=TEXT),) * TIMES),),
    "tools of the machine": lambda: (report(provenance=make_provenance(tools=tuple((f"tool-{i}", TEXT) for i in range(TIMES)))),),
    "observations": lambda: (Dossier(observations=(make_observation(notes=(TEXT,)),) * TIMES),),
    "artifacts": lambda: (Dossier(observations=(make_observation(artifacts=(TEXT,) * TIMES),)),),
    "quoted sources": lambda: (Dossier(excerpts=(Excerpt(file="f", line=1, first=1, lines=(TEXT,)),) * TIMES),),
    "readings": lambda: (Dossier(observations=(make_observation(readings=tuple((f"m{i}", Measured(value=1.0, unit=TEXT)) for i in range(TIMES))),)),),
}  # fmt: skip


def written(records: Callable[[], tuple[object, ...]]) -> Callable[[Path], bool]:
    """True if the records would become reports."""

    def fooled(folder: Path) -> bool:
        try:
            reports._refuse_huge(*records())
        except EvidenceError:
            return False
        return True

    return fooled


def named(**changes: str) -> Callable[[Path], bool]:
    """True if the machine's name makes the origin of every verdict long."""
    return lambda folder: len(recorded.where_and_when(make_provenance(device=make_device(**changes)))) > MAX_ORIGIN


def member(draw: random.Random) -> Attack:
    names = draw.sample(list(RECORDS), k=draw.randrange(1, 4))
    return Attack(
        name=" and ".join(names), attempt=written(lambda: tuple(record for name in names for record in RECORDS[name]()))
    )


def mutant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reports, "MAX_WEIGHT", 1 << 60)
    patch.setattr(reports, "weigh", lambda *_: 0)
    patch.setattr(recorded, "MAX_NAME", 1 << 60)


CLASS = AttackClass(
    name="huge reports",
    attacks=(
        *(Attack(name=name, attempt=written(records)) for name, records in RECORDS.items()),
        Attack(name="a long name of the device", attempt=named(name=TEXT)),
        Attack(name="a long name of the driver", attempt=named(driver=TEXT)),
    ),
    member=member,
    mutant=mutant,
)
