"""Random problems with sequences of different lengths in packed rows, keys in pages, and E4M3, as emulated_cases.py."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from emulated import DTYPES, Library, Tensor, ViolationError, operand, structure
from emulated_cases import Draw, Local, Result, Row, add_workspace, expect, rows_of, timed

Tensors = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Packed:
    """Sequences of (queries, keys) each. With a page size their keys are in pages, otherwise in packed rows.

    ``function`` is flashcore_attention_varlen, or flashcore_decode for sequences of few queries.
    """

    head_dim: int
    sequences: tuple[tuple[int, int], ...]
    function: str = "flashcore_attention_varlen"
    dtype: str = "fp16"
    causal: bool = True
    heads: int = 2
    kv_heads: int = 1
    page_size: int = 0
    max_ctas: int = 0
    unused: int = 0  # rows behind the queries of each sequence
    local: Local | None = None
    seed: int = 1

    @property
    def decodes(self) -> bool:
        return self.function == "flashcore_decode"

    def starts(self, which: int) -> list[int]:
        unused = 0 if which else self.unused
        return list(accumulate((sequence[which] + unused for sequence in self.sequences), initial=0))

    def keys(self, draw: Draw, arguments: Any) -> tuple[Tensor, Tensor, Callable[[int, int], int]]:
        """Return keys and values, and where a key of a sequence is in them."""
        batch, longest = len(self.sequences), max(keys for _, keys in self.sequences)
        if not self.page_size:
            starts = self.starts(1)
            k, v = (draw.tensor(name, (starts[-1], self.kv_heads, self.head_dim), self.dtype) for name in "kv")
            arguments.total_k = starts[-1]
            arguments.cu_seqlens_k = draw.library.tensor("cu_seqlens_k", (batch + 1,), starts, "int32").address
            return k, v, lambda b, i: starts[b] + i
        width = -(-longest // self.page_size)
        table = list(range(batch * width + 2))
        draw.numbers.shuffle(table)
        shape = (len(table), self.page_size, self.kv_heads, self.head_dim)
        k, v = (draw.tensor(name, shape, self.dtype) for name in "kv")
        arguments.page_size, arguments.pages = self.page_size, len(table)
        arguments.table_width = arguments.table_stride = width
        arguments.page_table = draw.library.tensor("page_table", (batch, width), table[: batch * width], "int32").address
        lengths = draw.library.tensor("lengths", (batch,), [keys for _, keys in self.sequences], "int32").address
        setattr(arguments, "lengths" if self.decodes else "seqused_k", lengths)

        def slot(b: int, i: int) -> int:
            return table[b * width + i // self.page_size] * self.page_size + i % self.page_size

        used = {slot(b, i) for b, (_, count) in enumerate(self.sequences) for i in range(count)}
        for tensor in (k, v):  # NaN where no sequence has a key: 0 times NaN would show in the output
            tensor.poison(set(range(shape[0] * shape[1])) - used, self.kv_heads * self.head_dim)
        return k, v, slot

    def run(self, library: Library) -> Result:
        draw = Draw(library, self.seed)
        arguments = structure("FlashcoreDecodeArguments" if self.decodes else "FlashcoreVarlenArguments")()
        starts = self.starts(0)
        q = draw.tensor("q", (starts[-1], self.heads, self.head_dim), self.dtype)
        k, v, slot = self.keys(draw, arguments)
        shapes = (("out", q.shape, self.dtype), ("lse", (self.heads, starts[-1]), "fp32"))
        make = draw.tensor if self.unused else library.empty  # no launch writes unused rows
        out, lse = (make(*what) for what in shapes)
        for name in ("causal", "max_ctas", "heads", "kv_heads", "head_dim"):
            setattr(arguments, name, int(getattr(self, name)))
        arguments.batch, arguments.total_q, arguments.dtype = len(self.sequences), starts[-1], DTYPES[self.dtype]
        arguments.scale, arguments.lse = self.head_dim**-0.5, lse.address
        arguments.q, arguments.k, arguments.v, arguments.out = (operand(x) for x in (q, k, v, out))
        arguments.cu_seqlens_q = library.tensor("cu_seqlens_q", (len(starts),), starts, "int32").address
        if self.unused:
            counts = [queries for queries, _ in self.sequences]
            arguments.seqused_q = library.tensor("seqused_q", (len(counts),), counts, "int32").address
        if self.decodes:
            arguments.sq = max(queries for queries, _ in self.sequences)
            arguments.cache_dtype = arguments.new_dtype = DTYPES[self.dtype]
        if self.local is not None:
            self.local.write(library, arguments)
        add_workspace(library, f"{self.function}_workspace_bytes", arguments)
        # The last tile of the producers of pages has a row only, and read_tile of paged_producer.cuh moves all of a tile.
        replays = self.page_size > 0 and not self.decodes
        result = timed(library, self.function, arguments, replays=replays)
        self.compare(result, (q, k, v, out, lse), slot)
        library.free()
        result.check(self.dtype)
        return result

    def compare(self, result: Result, tensors: Tensors, slot: Callable[[int, int], int]) -> None:
        q, k, v, out = (rows_of(tensor, self.head_dim) for tensor in tensors[:4])
        lse = tensors[4].values()
        local = (self.local or Local()).with_causal(self.causal)
        starts = self.starts(0)
        for b, (queries, length) in enumerate(self.sequences):
            for h in range(self.heads):
                group = h // (self.heads // self.kv_heads)
                keys, values = ([x(slot(b, i) * self.kv_heads + group) for i in range(length)] for x in (k, v))
                for i in range(queries):
                    at = (starts[b] + i) * self.heads + h
                    expected = expect(q(at), keys, values, self.head_dim**-0.5, local, i + length - queries, h)
                    result.take(out(at), lse[h * starts[-1] + starts[b] + i], *expected)


@dataclass(frozen=True)
class E4m3:
    """The attention forward in E4M3, with one scale for each operand."""

    sq: int
    sk: int
    head_dim: int = 128
    causal: bool = False
    heads: int = 1
    kv_heads: int = 1
    max_ctas: int = 0
    scales: tuple[float, float, float] = (1.0, 1.0, 1.0)
    rows: tuple[int, ...] | None = None
    seed: int = 1

    def run(self, library: Library) -> Result:
        draw = Draw(library, self.seed)
        arguments = structure("FlashcoreE4m3Arguments")()
        q = draw.tensor("q", (1, self.sq, self.heads, self.head_dim), "e4m3")
        k, v = (draw.tensor(name, (1, self.sk, self.kv_heads, self.head_dim), "e4m3") for name in "kv")
        out = library.empty("out", q.shape, "bf16")
        lse = library.empty("lse", (1, self.heads, self.sq), "fp32")
        for name in ("causal", "max_ctas", "heads", "kv_heads", "sq", "sk", "head_dim"):
            setattr(arguments, name, int(getattr(self, name)))
        arguments.batch, arguments.scale, arguments.lse = 1, self.head_dim**-0.5, lse.address
        arguments.q, arguments.k, arguments.v, arguments.out = (operand(x) for x in (q, k, v, out))
        for name, scale in zip("qkv", self.scales, strict=True):
            tensor = library.tensor(f"{name}_scale", (self.kv_heads,), [scale] * self.kv_heads, "fp32")
            setattr(arguments, f"{name}_scale", tensor.address)
            setattr(arguments, f"{name}_scale_head_stride", 1)
        size = 128 + self.kv_heads * self.head_dim * -(-self.sk // 128) * 128
        arguments.workspace, arguments.workspace_bytes = library.zeros("workspace", size).address, size
        result = timed(library, "flashcore_e4m3_forward", arguments)
        self.compare(result, (q, k, v, out, lse))
        library.free()
        result.error /= self.scales[2]
        result.check("e4m3")
        return result

    def compare(self, result: Result, tensors: Tensors) -> None:
        q, k, v, out = (rows_of(tensor, self.head_dim) for tensor in tensors[:4])
        lse = tensors[4].values()
        scale = self.head_dim**-0.5 * self.scales[0] * self.scales[1]
        for h in range(self.heads):
            group = h // (self.heads // self.kv_heads)
            keys, values = ([x(i * self.kv_heads + group) for i in range(self.sk)] for x in (k, v))
            for i in self.rows if self.rows is not None else range(self.sq):
                expected, expected_lse = self.expect(q(i * self.heads + h), keys, values, scale, i, h)
                result.take(out(i * self.heads + h), lse[h * self.sq + i], expected, expected_lse)

    def expect(self, q: Row, keys: Sequence[Row], values: Sequence[Row], scale: float, row: int, head: int) -> tuple[Row, float]:
        local = Local().with_causal(self.causal)
        out, lse = expect(q, keys, values, scale, local, row + self.sk - self.sq, head)
        return [self.scales[2] * x for x in out], lse


def transpose(library: Library, values: Tensor, out: Tensor, kind: str) -> None:
    """Call the kernel that transposes values of (batch, keys, heads, columns)."""
    arguments = structure("FlashcoreE4m3TransposeArguments")()
    arguments.dtype, arguments.v, arguments.values = DTYPES[kind], operand(values), out.address
    arguments.batch, arguments.sk, arguments.kv_heads, arguments.head_dim = values.shape
    arguments.size = ctypes.sizeof(arguments)
    if library.c.flashcore_e4m3_transpose(ctypes.byref(arguments)) != 0:
        raise ViolationError(library.c.flashcore_error_string().decode())
