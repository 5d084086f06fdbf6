"""Search the turns of attention/e4m3/consumer.cuh."""

# A turn is PV of a KV block and QK of the one before. Every warpgroup has a turn more than the tile has KV blocks, also one that
# skips some.

from __future__ import annotations

import pytest
from barrier_ledger import OUT_OF_RANGE, Consumer, Ledger
from test_barriers import Machine, search


class Turns(Consumer):
    def begin(self, tile: int) -> int:
        self.held = self.rings[self.query].slot
        self.ops.append(("check", self.query, self.held, ("q", tile)))
        self.rings[self.query].advance()
        first = self.ledger.tiles[tile] - self.ledger.fully_masked(tile, self.index)
        self.skip_blocks(tile, first)
        return first - 1

    def skip_blocks(self, tile: int, first: int) -> None:
        for n_block in range(self.ledger.tiles[tile] - 1, first - 1, -1):
            self.skip("k", ("k", tile, n_block))
            if not self.ledger.missing_barrier:
                self.empty_barrier()
            self.skip("v", ("v", tile, n_block))

    def skip_out_of_range_tile(self, tile: int) -> int:
        slot = self.rings[self.query].slot
        self.rings[self.query].advance()
        if not self.ledger.late_query:
            self.release_query(tile, slot)
        self.skip_blocks(tile, 0)
        self.empty_barrier()
        if self.ledger.late_query:
            self.release_query(tile, slot)
        return tile + 1

    def attend(self, tile: int) -> int:
        n_block = self.begin(tile)
        self.turn(tile, None, n_block)
        while n_block:
            self.turn(tile, n_block, n_block - 1)
            n_block -= 1
        self.turn(tile, 0, None)
        return tile + 1

    def turn(self, tile: int, values: int | None, keys: int | None) -> None:
        if values is not None:
            self.wait("v", ("v", tile, values))
        if keys is not None:
            self.wait("k", ("k", tile, keys))
        self.barrier_sync()
        if values is not None:
            self.release("v", ("v", tile, values))
        self.barrier_arrive()
        if keys is not None:
            self.finish_qk(tile, keys)


@pytest.fixture(autouse=True)
def turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_barriers.Consumer", Turns)
    assert Machine.__init__.__globals__["Consumer"] is Turns


@pytest.mark.parametrize(
    "ledger",
    [
        Ledger(tiles=(3, 1)),
        Ledger(tiles=(1, 0, 2)),
        Ledger(tiles=(3, 1), ping_pong_barrier=False),
        Ledger(tiles=(2, 1, 2), masked=((1, 0), (0, OUT_OF_RANGE), (0, 0))),
        pytest.param(Ledger(tiles=(1, 2), masked=((0, OUT_OF_RANGE), (1, 0)), kv_stages=3), marks=pytest.mark.nightly),
        pytest.param(
            Ledger(tiles=(1, 2), masked=((0, OUT_OF_RANGE), (1, 0)), ping_pong_barrier=False), marks=pytest.mark.nightly
        ),
        pytest.param(Ledger(tiles=(1,), consumers=3, q_stages=2, ping_pong_barrier=False), marks=pytest.mark.nightly),
    ],
    ids=str,
)
def test_no_interleaving_deadlocks_or_overwrites(ledger: Ledger) -> None:
    assert search(ledger) > 1


@pytest.mark.parametrize(
    ("ledger", "message"),
    [
        (Ledger(tiles=(2, 2), masked=((1, 0), (1, 0)), missing_barrier=True), "found|deadlock"),
        (Ledger(tiles=(2, 1, 1), early_query=True), "found"),
        (Ledger(tiles=(4,), release_before_use=True), "found"),
        (Ledger(tiles=(4,), empty_arrivals=1), "found|deadlock"),
    ],
    ids=["a skipped block has no turn", "early query", "released before use", "one arrival frees a slot"],
)
def test_a_wrong_ledger_is_found(ledger: Ledger, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        search(ledger)
