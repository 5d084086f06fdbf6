"""Anchors as the reviewed file pins them. A run that is added brings those that its points need. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from flashcore_ci.history.cells import label, line
from flashcore_ci.model.anchor import Pin, PinnedCode
from flashcore_ci.model.evidence import Identity, Observation
from flashcore_ci.model.history import Anchor, AnchorLink
from flashcore_ci.model.identity import code_digest, workload_digest
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.suite import Kind, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedRow:
    """An anchor of one workload, with what it measured against the one before. A copy is the same build with another subject file."""

    anchor: Anchor
    links: tuple[AnchorLink, ...]
    is_copy: bool = False


Chain = tuple[PinnedRow, ...]


def chains_of(pins: Sequence[Pin], plan: Plan, observations: Iterable[Observation], machine_class: str) -> tuple[Chain, ...]:
    """Return the anchors of every workload, the oldest first."""
    bases: dict[str, list[Identity]] = {}
    for seen in observations:
        if seen.kind is Kind.COMPARISON and seen.base is not None:
            bases.setdefault(seen.target, []).append(seen.base)
    mine = [pin for pin in pins if pin.suite == plan.suite]
    rows = (tuple(_chain(mine, plan.suite, w, bases.get(w.id, []), label(machine_class))) for w in plan.workloads)
    return tuple(chain for chain in rows if chain)


def _chain(
    pins: Sequence[Pin], suite: str, workload: Workload, bases: Sequence[Identity], machine_class: str
) -> Iterator[PinnedRow]:
    for pin in pins:
        pinned = pin.codes.get(workload.id)
        if pinned is None:
            continue
        names = ("log_ratio", "standard_error", "df", "rounds")
        links = (link for link in pin.links if link.workload == workload.id)
        rows = (
            AnchorLink(machine_class=label(link.machine_class), **{name: getattr(link, name) for name in names}) for link in links
        )
        yield _row(pin, suite, workload, pinned.code, tuple(rows))
        for code in sorted(_with_other_subject(pinned, bases)):
            same = AnchorLink(machine_class=machine_class, log_ratio=0.0, standard_error=0.0, df=0.0, rounds=0)
            yield replace(_row(pin, suite, workload, code, (same,)), is_copy=True)


def _with_other_subject(pinned: PinnedCode, bases: Iterable[Identity]) -> set[str]:
    """Return the code of the pinned build with another subject file: every side runs that of head, so one build has many codes."""
    found = (
        code_digest(base.machine_code, base.launcher, base.binding, base.subject) for base in bases if not pinned.difference(base)
    )
    return {code for code in found if code != pinned.code}


def _row(pin: Pin, suite: str, workload: Workload, code: str, links: tuple[AnchorLink, ...]) -> PinnedRow:
    since = int(dt.datetime.fromisoformat(pin.since).replace(tzinfo=dt.UTC).timestamp())
    anchor = Anchor(
        id=0,
        suite=label(suite),
        workload=label(workload.id),
        question=workload_digest(workload),
        code=code,
        commit=pin.commit,
        since=since,
        reason=line(pin.reason),
    )
    return PinnedRow(anchor=anchor, links=links)
