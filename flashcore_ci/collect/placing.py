"""Time a commit of a bisection with both ends, in rounds of three fresh processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from flashcore_ci.adapters import lock, nvml
from flashcore_ci.collect.comparison import ORDER, Base, InterimLooks, PairedSeries, run_rounds
from flashcore_ci.collect.session import Session
from flashcore_ci.model.reading import Missing, Samples
from flashcore_ci.model.suite import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The good and the bad end of a bisection."""

    good: Base
    bad: Base


def place(
    session: Session,
    ends: Ends,
    middle: Base,
    workload: Workload,
    *,
    rounds: tuple[int, ...],
    is_final: Callable[[Mapping[str, Samples]], bool],
) -> Mapping[str, Samples] | Missing:
    """Return the samples by side: ``base`` is the good end, ``head`` the middle, ``anchor`` the bad end. The GPU is locked meanwhile."""
    head = middle.session(session)
    good, bad = (replace(end.session(session), scratch=session.scratch) for end in (ends.good, ends.bad))
    series = PairedSeries(workload=workload, sides=ORDER)
    looks = InterimLooks(rounds=rounds, is_final=lambda _target, samples, _provenance: is_final(samples))
    with (
        lock.hold(lock.path(session.lock_dir, session.uuid), timeout=session.lock_timeout, waiting=session.progress),
        nvml.locked_clocks(session.uuid, session.lock_clocks),
    ):
        if (busy := head.check_exclusive()) is not None:
            return busy
        run_rounds(head, good, looks, {workload.id: series}, session.origin(), third=(bad, {}))
        if (busy := head.check_exclusive()) is not None:
            return busy
    return series.missing() or dict(series.samples())
