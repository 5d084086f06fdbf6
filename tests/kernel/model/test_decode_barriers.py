"""Search the barrier ledger of decode (kernel/README.md) for deadlocks and for reads of missing data."""

from __future__ import annotations

import pytest
from decode_ledger import Ledger, search


@pytest.mark.parametrize(
    "ledger",
    [
        Ledger(splits=(1,)),
        Ledger(splits=(3, 1)),
        Ledger(splits=(1, 1, 1), queue=1),
        Ledger(splits=(1, 1, 1, 1), slots=3),
        Ledger(splits=(2, 2), slots=3),
        Ledger(splits=(1, 2), slots=1, queue=1),
        Ledger(splits=(1, 1), halves=2),
        Ledger(splits=(1, 1), halves=2, fixup=True),
        Ledger(splits=(1, 2, 1), warps=3, halves=2, fixup=True),
        Ledger(splits=(1, 2, 1), halves=2, segments=True, fixup=True),
        Ledger(splits=(1, 1, 7, 1, 1, 1), slots=5, queue=4),
        Ledger(splits=(3, 1), copiers=2),
        Ledger(splits=(1, 2, 1), copiers=2, queue=1, fixup=True),
        Ledger(splits=(2,), copiers=3, warps=1),
        Ledger(splits=(3, 1), scalers=2, warps=1),
        Ledger(splits=(2, 3, 1), slots=3, scalers=3, warps=1),
    ],
    ids=repr,
)
def test_no_interleaving_deadlocks_or_reads_missing_data(ledger: Ledger) -> None:
    assert search(ledger) > 1


@pytest.mark.parametrize(
    ("ledger", "message"),
    [
        (Ledger(splits=(4,), mistake="one arrival frees a slot: tile empty"), "in tile|deadlock"),
        (Ledger(splits=(3,), mistake="an arrival is missing: tile empty"), "deadlock"),
        (Ledger(splits=(3,), mistake="the producer waits for the wrong parity: tile"), "deadlock"),
        (Ledger(splits=(4,), mistake="released before it was read: tile"), "in tile"),
        (Ledger(splits=(1, 1, 1), mistake="one arrival frees a slot: split empty"), "in split|deadlock"),
        (Ledger(splits=(1, 1), mistake="an arrival is missing: split empty"), "deadlock"),
        (Ledger(splits=(1, 1), mistake="the producer waits for the wrong parity: split"), "deadlock"),
        (Ledger(splits=(1, 1, 1), mistake="released before it was read: split"), "in split"),
        (Ledger(splits=(1, 1, 1), mistake="a split is pushed before its slot is empty"), "in split"),
        (Ledger(splits=(1,), mistake="a split is pushed before it is written"), "in split"),
        (Ledger(splits=(3,), mistake="pushed when all its tiles are sent"), "deadlock"),
        (Ledger(splits=(1, 2), mistake="a tile of a pushed split is never sent"), "deadlock"),
        (Ledger(splits=(1,), mistake="no end is pushed"), "deadlock"),
        (Ledger(splits=(1, 1), mistake="weights before all statistics are there"), "in statistics"),
        (Ledger(splits=(1, 1), mistake="added up before all sums are there"), "in sums"),
        (Ledger(splits=(1,), halves=2, mistake="sums are overwritten while they are read"), "in sums"),
        (Ledger(splits=(1, 1), segments=True, mistake="left while others add up"), "in statistics|in sums"),
        (Ledger(splits=(1,), segments=True, mistake="added up before all is left"), "in statistics|in sums"),
        (Ledger(splits=(3,), copiers=2, mistake="one arrival fills a slot"), "in tile|deadlock"),
        (Ledger(splits=(2,), copiers=2, mistake="an arrival is missing: tile full"), "deadlock"),
        (Ledger(splits=(1,), copiers=2, mistake="a warp arrives before its copies have landed"), "in tile"),
        (Ledger(splits=(2,), scalers=2, mistake="a warp copies the scales of all tiles"), "in tile|deadlock"),
        (Ledger(splits=(6,), scalers=3, warps=1, mistake="warps are a turn of the ring ahead, as there are more than slots"), "in tile|deadlock"),
        (Ledger(splits=(3,), scalers=2, mistake="one arrival fills a slot"), "in tile|deadlock"),
        (Ledger(splits=(3,), scalers=2, slots=1, mistake="rows are copied before the slot is empty"), "in tile|deadlock"),
        (Ledger(splits=(1,), scalers=2, mistake="a warp arrives before its copies have landed"), "in tile"),
        (Ledger(splits=(3,), copiers=2, mistake="rows are copied before the slot is empty"), "in tile|deadlock"),
        (Ledger(splits=(1,), fixup=True, mistake="counted before all of the split is in the workspace"), "in partials"),
        (Ledger(splits=(1,), fixup=True, mistake="finished splits are read before they are counted"), "in finished"),
    ],
    ids=lambda value: value.mistake if isinstance(value, Ledger) else value,
)  # fmt: skip
def test_a_wrong_ledger_is_found(ledger: Ledger, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        search(ledger)
