"""A slower kernel on a machine that is called new: ``no-drift`` blocks unless it really is."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attacking import Attack, AttackClass
from comparing import COMPUTE, NO_DRIFT, lognormal, plan_of
from evidence_factories import good_observation, make_evidence, make_provenance
from factories import make_build, make_check
from judging import judged
from report_factories import LIVE

from flashcore_ci.judge import judge as judging_module
from flashcore_ci.judge import no_drift
from flashcore_ci.judge.references import References
from flashcore_ci.model.baseline import Baseline, BaselineRow
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import machine_class
from flashcore_ci.model.reading import Missing, Samples
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Origin

RECORDED = Origin(kind="recorded", detail="a recording")
PLAN = plan_of(make_check(NO_DRIFT), workload=COMPUTE)
OWN = {"device": "NVIDIA H200", "driver": "580.159.04", "clock_policy": "not locked"}


def attack(name: str, *, origin: Origin = LIVE, missing: Missing | None = None, device: Any = None, **baseline: str) -> Attack:
    """A slower kernel. ``baseline`` is what differs from the one for this machine, without any there is none."""

    def attempt(_folder: Path) -> bool:
        cycles, ms = (Samples(values=lognormal(seed, 5, percent=9.0), unit=unit) for seed, unit in ((1, "Mcycle"), (2, "ms")))
        samples = () if missing else (("time/gpu/cold", ms), ("cycles/gpu/cold", cycles))
        seen = good_observation(PLAN, make_build(), Kind.TIMING, "big", samples=samples, missing=missing)
        found = replace(make_provenance().device, **(device or {}))
        evidence = make_evidence(
            observations=(seen,), provenance=make_provenance(device=found, machine_class=machine_class(found))
        )
        row = BaselineRow(
            workload="big",
            collected_at="2026-11-01T00:00:00Z",
            commit="f" * 40,
            asked="a",
            collector="c",
            ms=(1.0, 1.1),
            megacycles=(1.0, 1.1),
        )
        known = (Baseline(**{**OWN, **baseline}, rows=(row,)),) if baseline else ()
        return not judged(evidence, plan=PLAN, origin=origin, references=References(baselines=known)).verdicts[0].blocks

    return Attack(name=name, attempt=attempt)


def member(rng: random.Random) -> Attack:
    """Another name, driver or clock policy."""
    text = "".join(rng.choice("0123456789.") for _ in range(6))
    if rng.random() < 0.5:
        return attack("another driver", driver=f"5{text}")
    return attack("a recording of another device", origin=RECORDED, device={"name": f"NVIDIA H{text}"})


def mutant(patch: pytest.MonkeyPatch) -> None:
    """Believe that every machine is new."""
    patch.setattr(no_drift, "_is_first_run", lambda _context: True)
    patch.setattr(judging_module, "_is_first_run", lambda _check, _match, evaluation: evaluation.reason.code is Code.FIRST_RUN)


CLASS = AttackClass(
    name="a machine that is called new",
    attacks=(
        attack("the baseline is of another driver", driver="570.1"),
        attack("the baseline is of other clocks", clock_policy="locked at 1500 MHz"),
        attack("a recording without a baseline", origin=RECORDED),
        attack("a recording of a renamed device", origin=RECORDED, device={"name": "NVIDIA H201"}),
        attack("a part of a GPU", device={"multiprocessors": 16}),
        attack("another capability", device={"compute_capability": "8.0"}),
        attack("blanks in the name", driver="570.1", device={"name": "NVIDIA  H200 "}),
        attack("the name in capitals", driver="570.1", device={"name": "NVIDIA-h200"}),
        attack("evidence that says so itself", missing=Missing(code=Code.FIRST_RUN, message="new")),
        attack("a recording that says so itself", origin=RECORDED, missing=Missing(code=Code.FIRST_RUN, message="new")),
    ),
    member=member,
    mutant=mutant,
)
