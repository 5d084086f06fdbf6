"""Windows, chunks, capped scores and sinks in decode against the formula in float64, on a Hopper GPU."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from window_cases import (  # noqa: E402 - needs torch
    DTYPES,
    attend,
    check_packed,
    compare,
    cumulate,
    draw,
    fill_pages,
    make_batch,
    randn,
)

pytestmark = pytest.mark.gpu


@dataclass(frozen=True, kw_only=True)
class Cache:
    """Keys and values of sequences in packed rows, and a cache without the ``new`` last ones of each. The rest is NaN."""

    keys: Any
    values: Any
    lengths: list[int]
    new: int
    page: int
    pools: tuple[Any, Any]
    table: Any

    @property
    def total(self) -> list[int]:
        return [n + self.new for n in self.lengths]

    def part(self, sequence: int) -> slice:
        start = sum(self.total[:sequence])
        return slice(start, start + self.total[sequence])

    def place(self, sequence: int, key: int) -> tuple[Any, Any]:
        """Return where a key is in the pools."""
        return (self.table[sequence, key // self.page], key % self.page) if self.page else (sequence, key)

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of ``decode``."""
        arguments: dict[str, Any] = {"lengths": torch.tensor(self.lengths, dtype=torch.int32, device="cuda")}
        if self.page:
            arguments["page_table"] = self.table
        if self.new:
            for name, rows in (("k_new", self.keys), ("v_new", self.values)):
                arguments[name] = torch.stack([rows[self.part(i)][-self.new :] for i in range(len(self.lengths))])
        return arguments

    def forget_new_keys(self) -> None:
        """Overwrite what the kernel has to append."""
        for i, n in enumerate(self.lengths):
            for key in range(n, self.total[i]):
                for pool in self.pools:
                    pool[self.place(i, key)] = math.nan

    def find_missing(self) -> list[tuple[int, int]]:
        """List new keys that were not appended, of the first and last of each sequence."""
        found = []
        for i, n in enumerate(self.lengths):
            for key in (n, self.total[i] - 1):
                for pool, rows in zip(self.pools, (self.keys, self.values), strict=True):
                    if not torch.equal(pool[self.place(i, key)], rows[self.part(i)][key]):
                        found.append((i, key))
        return found


def make_cache(rng: random.Random, batch: int, hkv: int, d: int, dtype: Any) -> Cache:
    """Draw lengths, and place the keys in pages or one after the other."""
    new, page = rng.choice((0, 0, 1, 40)), rng.choice((0, 16, 64, 256))
    lengths = [rng.choice((0, 1, 100, rng.randrange(3000))) for _ in range(batch)]
    total = [n + new for n in lengths]
    k, v = (randn(sum(total), hkv, d, dtype=dtype) for _ in range(2))
    if page:
        *pools, table = fill_pages(k, v, total, page, rng)
    else:
        pools, table = [torch.full((batch, max(total) + 9, hkv, d), math.nan, dtype=dtype, device="cuda") for _ in range(2)], None
        for pool, rows in zip(pools, (k, v), strict=True):
            for i, n in enumerate(total):
                pool[i, :n] = rows[sum(total[:i]) : sum(total[: i + 1])]
    return Cache(keys=k, values=v, lengths=lengths, new=new, page=page, pools=(pools[0], pools[1]), table=table)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [64, 128, 256])
def test_decode(flashcore: Any, d: int, dtype: Any) -> None:
    rng = random.Random(d)
    torch.manual_seed(d)
    for _ in range(40):
        b, hkv, group = rng.choice((1, 3, 7)), rng.choice((1, 2, 4)), rng.choice((1, 4, 8))
        h, sq = hkv * group, rng.choice((1, 1, 2, 5, 16))
        options, cache = draw(rng, h), make_cache(rng, b, hkv, d, dtype)
        q = randn(b, sq, h, d, dtype=dtype)
        arguments = cache.arguments()
        cache.forget_new_keys()
        mode = rng.choice(({}, {"splits": 3}, {"deterministic": True}, {"max_ctas": 3}))
        out, lse = flashcore.decode(q, *cache.pools, return_lse=True, **arguments, **mode, **options.arguments())
        for i in range(b):
            part = cache.part(i)
            wrong = compare((out[i], lse[i]), attend(q[i], cache.keys[part], cache.values[part], options), dtype)
            assert not wrong, (wrong, cache.total[i], sq, cache.new, cache.page, mode, options)
        assert not cache.new or not cache.find_missing()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [64, 128, 256])
def test_packed_decode(flashcore: Any, d: int, dtype: Any) -> None:
    rng = random.Random(d)
    torch.manual_seed(d)
    for _ in range(12):
        h, hkv = rng.choice(((1, 1), (4, 2), (4, 1)))
        lengths, options = make_batch(rng, 16), draw(rng, h)
        queries, keys = ([pair[i] for pair in lengths] for i in (0, 1))
        q, k, v = (randn(sum(n), heads, d, dtype=dtype) for n, heads in ((queries, h), (keys, hkv), (keys, hkv)))
        pk, pv, table = fill_pages(k, v, keys, rng.choice((16, 64, 1024)), rng)
        used = torch.tensor(keys, dtype=torch.int32, device="cuda")
        out, lse = flashcore.decode_varlen(
            q, pk, pv, cumulate(queries), lengths=used, page_table=table, return_lse=True, **options.arguments()
        )
        check_packed(out, lse, (q, k, v), lengths, options, dtype)


def test_keys_before_the_window_may_be_anything(flashcore: Any) -> None:
    for d in (64, 128, 256):
        q = randn(1, 1, 2, d, dtype=torch.float16)
        k, v = (randn(1, 4096, 2, d, dtype=torch.float16) for _ in range(2))
        wanted = flashcore.decode(q, k, v, window=(100, 0))
        k[:, : 4096 - 101], v[:, : 4096 - 101] = math.nan, math.inf
        assert torch.equal(flashcore.decode(q, k, v, window=(100, 0)), wanted)
