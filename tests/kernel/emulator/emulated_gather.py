"""Decode over pages of any size and layout, on the emulator. What no key needs is never written, so that reading it shows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from emulated import BYTES, DTYPES, Library, Tensor, encode, operand, structure
from emulated_cases import Draw, Local, Result, Row, add_workspace, expect, rows_of, timed

Place = tuple[int, int, int]  # a page, a key in it, and a head
MAX_INT32 = 2**31 - 1


def write(library: Library, address: int, values: Sequence[float], kind: str) -> None:
    data = encode(values, kind)
    library.c.emulator_write(ctypes.c_void_p(address), data, ctypes.c_size_t(len(data)))


@dataclass(frozen=True)
class Gather:
    """A problem. ``counts`` are the packed queries of each sequence, of which a launch serves 1 to ``most``.

    ``layout`` is nhd, hnd, interleaved (the keys and the values of a page follow each other) or padded (16 elements between pages).
    """

    head_dim: int
    lengths: tuple[int, ...]
    page: int
    dtype: str = "fp16"
    cache: str = ""
    layout: str = "nhd"
    heads: int = 2
    kv_heads: int = 1
    sq: int = 1
    counts: tuple[int, ...] = ()
    most: int = 16
    new_keys: int = 0
    max_ctas: int = 0
    splits: int = 0
    shared: bool = False  # sequences may have pages in common
    wild: bool = False  # entries outside the pool stand for its first and last page
    far: int = 0  # elements from the pool's address to its last page, the only one in memory
    local: Local | None = None
    seed: int = 1

    @property
    def kind(self) -> str:
        return self.cache or self.dtype

    @property
    def strides(self) -> tuple[int, int, int]:
        """Return the elements between pages, keys and heads."""
        row = self.kv_heads * self.head_dim
        if self.layout == "hnd":
            return self.page * row, self.head_dim, self.page * self.head_dim
        return self.page * row * (2 if self.layout == "interleaved" else 1) + 16 * (self.layout == "padded"), row, self.head_dim

    @property
    def pages(self) -> int:
        return 1 if self.far else sum(-(-length // self.page) for length in self.lengths) + 2

    def run(self, library: Library) -> Result:
        draw = Draw(library, self.seed)
        batch, counts = len(self.lengths), self.counts or (self.sq,) * len(self.lengths)
        table = self.draw_table(draw)
        arguments = structure("FlashcoreDecodeArguments")()
        shape = (sum(counts), self.heads, self.head_dim) if self.counts else (batch, self.sq, self.heads, self.head_dim)
        q, out = draw.tensor("q", shape, self.dtype), library.empty("out", shape, "bf16" if self.dtype == "e4m3" else self.dtype)
        lse = library.empty("lse", (self.heads, shape[0]) if self.counts else (batch, self.heads, self.sq), "fp32")
        for name in ("heads", "kv_heads", "head_dim", "new_keys", "max_ctas", "splits"):
            setattr(arguments, name, getattr(self, name))
        arguments.page_size, arguments.batch, arguments.causal, arguments.sq = (
            self.page,
            batch,
            1,
            self.most if counts else self.sq,
        )
        arguments.dtype, arguments.cache_dtype, arguments.new_dtype = DTYPES[self.dtype], DTYPES[self.kind], DTYPES[self.dtype]
        arguments.scale, arguments.lse = self.head_dim**-0.5, lse.address
        arguments.q, arguments.out = operand(q), operand(out)
        arguments.lengths = library.tensor("lengths", (batch,), [n - self.new_keys for n in self.lengths], "int32").address
        self.write_table(library, arguments, table)
        if self.counts:
            starts = [sum(counts[:i]) for i in range(batch + 1)]
            arguments.total_q, arguments.cu_seqlens_q = (
                starts[-1],
                library.tensor("cu_seqlens_q", (batch + 1,), starts, "int32").address,
            )
        else:
            arguments.sq = self.sq
        if self.local is not None:
            self.local.write(library, arguments)
        caches = [self.make_cache(draw, arguments, name, table) for name in "kv"]
        add_workspace(library, "flashcore_decode_workspace_bytes", arguments)
        result = timed(library, "flashcore_decode", arguments)
        self.compare(result, (q, out, lse), caches)
        library.free()
        result.check(self.dtype)
        return result

    def draw_table(self, draw: Draw) -> list[list[int]]:
        """Return the pages of each sequence."""
        order = list(range(self.pages))
        draw.numbers.shuffle(order)
        table, first = [], 0
        for length in self.lengths:
            count = -(-length // self.page)
            repeated = self.shared or self.far
            table.append([draw.numbers.choice(order) for _ in range(count)] if repeated else order[first : first + count])
            first += count
        return table

    def write_table(self, library: Library, arguments: Any, table: list[list[int]]) -> None:
        """Write the used entries only."""
        width = max(map(len, table)) + 1
        memory = library.empty("page_table", (len(table), width), "int32")
        arguments.page_table, arguments.table_width, arguments.table_stride = memory.address, width, width
        arguments.pages = 2 if self.far else self.pages
        outside = {0: -7, self.pages - 1: MAX_INT32} if self.wild else {0: 1} if self.far else {}
        for i, pages in enumerate(table):
            write(library, memory.address + 4 * i * width, [outside.get(page, page) for page in pages], "int32")

    def make_cache(self, draw: Draw, arguments: Any, name: str, table: list[list[int]]) -> Callable[[int, int, int], Row]:
        """Write the rows that keys need. Return a function of sequence, key and head."""
        library, size = draw.library, BYTES[self.kind]
        first = self.page * self.strides[1] if self.layout == "interleaved" and name == "v" else 0
        address = arguments.k.data if first else library.empty(name, (self.pages * self.strides[0],), self.kind).address
        address += first * size
        cache = structure("FlashcoreOperand")()
        cache.data, (cache.batch_stride, cache.sequence_stride, cache.head_stride) = address, self.strides
        if self.far:
            cache.data, cache.batch_stride = address - self.far * size, self.far
        setattr(arguments, name, cache)
        rows: dict[Place, Row] = {}
        for pages, length in zip(table, self.lengths, strict=True):
            for key in range(length - self.new_keys):
                for place in ((pages[key // self.page], key % self.page, head) for head in range(self.kv_heads)):
                    if place not in rows:
                        at = address + size * sum(stride * i for stride, i in zip(self.strides, place, strict=True))
                        write(library, at, [draw.numbers.gauss(0.0, 1.0) for _ in range(self.head_dim)], self.kind)
                        rows[place] = Tensor(library, at, (self.head_dim,), self.kind).values()
        if self.new_keys:
            new = draw.tensor(f"{name}_new", (len(table), self.new_keys, self.kv_heads, self.head_dim), self.dtype)
            setattr(arguments, f"{name}_new", operand(new))
            new_rows = rows_of(new, self.head_dim)

        def find(sequence: int, key: int, head: int) -> Row:
            added = key - self.lengths[sequence] + self.new_keys
            if added >= 0:
                return new_rows((sequence * self.new_keys + added) * self.kv_heads + head)
            return rows[table[sequence][key // self.page], key % self.page, head]

        return find

    def compare(
        self, result: Result, tensors: tuple[Tensor, Tensor, Tensor], caches: Sequence[Callable[[int, int, int], Row]]
    ) -> None:
        q, out, lse = tensors
        query, local = rows_of(q, self.head_dim), self.local or Local()
        local = Local(local.left, 0, local.chunk, local.softcap, local.sinks)
        first = 0
        for sequence, length in enumerate(self.lengths):
            count = self.counts[sequence] if self.counts else self.sq
            for i in range(count if count <= self.most else 0):
                for h in range(self.heads):
                    head = h // (self.heads // self.kv_heads)
                    keys, values = ([find(sequence, key, head) for key in range(length)] for find in caches)
                    row = (first + i) * self.heads + h
                    expected = expect(query(row), keys, values, self.head_dim**-0.5, local, i + length - count, h)
                    place = h * q.shape[0] + first + i if self.counts else (sequence * self.heads + h) * self.sq + i
                    got = Tensor(
                        out.library, out.address + row * self.head_dim * BYTES[out.kind], (self.head_dim,), out.kind
                    ).values()
                    result.take(got, Tensor(lse.library, lse.address + 4 * place, (1,), "fp32").values()[0], *expected)
            first += count
