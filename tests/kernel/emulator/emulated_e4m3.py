"""Random problems of attention in E4M3 with sequences of different lengths in packed rows, as emulated_packed.py."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from emulated import Library, Tensor, attend, operand, structure
from emulated_cases import Draw, Result, Row, add_workspace, rows_of, timed

FUNCTION = "flashcore_e4m3_varlen"


@dataclass(frozen=True)
class PackedE4m3:
    """Sequences of (queries, keys) each, behind so many rows of no sequence. Each (sequence, KV head) has its own factors.

    Rows of no sequence are NaN. Of a sequence only the first ``used`` keys count, -1 for all. ``rows`` says which of its queries are checked.
    """

    head_dim: int
    sequences: tuple[tuple[int, int], ...]
    causal: bool = False
    heads: int = 2
    kv_heads: int = 1
    max_ctas: int = 0
    used: tuple[int, ...] = ()
    gap: int = 0
    rows: tuple[int, ...] | None = None
    signs: tuple[float, ...] = (1.0,)
    seed: int = 1

    def starts(self, which: int) -> list[int]:
        return list(accumulate((sequence[which] for sequence in self.sequences), initial=self.gap))

    def keys_of(self, sequence: int) -> int:
        keys = self.sequences[sequence][1]
        return keys if not self.used or self.used[sequence] < 0 else min(keys, self.used[sequence])

    def tensors(self, draw: Draw) -> list[Tensor]:
        """Return queries, keys and values. Rows that no sequence uses are NaN."""
        starts = self.starts(0), self.starts(1)
        made = []
        for name, which, heads in (("q", 0, self.heads), ("k", 1, self.kv_heads), ("v", 1, self.kv_heads)):
            total = starts[which][-1] + self.gap
            tensor = draw.tensor(name, (total, heads, self.head_dim), "e4m3")
            lengths = [self.keys_of(b) if which else queries for b, (queries, _) in enumerate(self.sequences)]
            used = {row + i for row, length in zip(starts[which], lengths, strict=False) for i in range(length)}
            tensor.poison(set(range(total)) - used, heads * self.head_dim)
            made.append(tensor)
        return made

    def scales(self, draw: Draw, arguments: Any) -> dict[str, list[float]]:
        """Draw factors of each (sequence, KV head), as float32. Those of keys have the strides of a transposed tensor."""
        batch, found = len(self.sequences), {}
        for name in "qkv":
            numbers = [2.0 ** draw.numbers.uniform(-2, 1) * draw.numbers.choice(self.signs) for _ in range(batch * self.kv_heads)]
            strides = (1, batch) if name == "k" else (self.kv_heads, 1)
            tensor = draw.library.tensor(f"{name}_scale", (len(numbers),), numbers, "fp32")
            setattr(arguments, f"{name}_scale", tensor.address)
            for kind, stride in zip(("batch", "head"), strides, strict=True):
                setattr(arguments, f"{name}_scale_{kind}_stride", stride)
            rounded = struct.unpack(f"<{len(numbers)}f", struct.pack(f"<{len(numbers)}f", *numbers))
            found[name] = [rounded[b * strides[0] + h * strides[1]] for b in range(batch) for h in range(self.kv_heads)]
        return found

    def run(self, library: Library) -> Result:
        draw = Draw(library, self.seed)
        arguments = structure("FlashcoreE4m3VarlenArguments")()
        q, k, v = self.tensors(draw)
        total = q.shape[0]
        out = library.tensor("out", q.shape, [7.0] * q.count, "bf16")
        lse = library.tensor("lse", (self.heads, total), [7.0] * (self.heads * total), "fp32")
        for name in ("causal", "max_ctas", "heads", "kv_heads", "head_dim"):
            setattr(arguments, name, int(getattr(self, name)))
        arguments.batch, arguments.total_q, arguments.total_k = len(self.sequences), total, k.shape[0]
        arguments.scale, arguments.lse = self.head_dim**-0.5, lse.address
        arguments.q, arguments.k, arguments.v, arguments.out = (operand(x) for x in (q, k, v, out))
        for name, which in (("cu_seqlens_q", 0), ("cu_seqlens_k", 1)):
            starts = self.starts(which)
            setattr(arguments, name, library.tensor(name, (len(starts),), starts, "int32").address)
        if self.used:
            used = [self.keys_of(b) for b in range(len(self.sequences))]
            arguments.seqused_k = library.tensor("seqused_k", (len(used),), used, "int32").address
        scales = self.scales(draw, arguments)
        add_workspace(library, f"{FUNCTION}_workspace_bytes", arguments)
        result = timed(library, FUNCTION, arguments)
        self.compare(result, (q, k, v, out, lse), scales)
        library.free()
        result.check("e4m3")
        return result

    def compare(self, result: Result, tensors: Sequence[Tensor], scales: dict[str, list[float]]) -> None:
        q, k, v, out = (rows_of(tensor, self.head_dim) for tensor in tensors[:4])
        lse, total = tensors[4].values(), tensors[0].shape[0]
        starts = self.starts(0), self.starts(1)
        untouched = set(range(total))
        for b, (queries, _) in enumerate(self.sequences):
            length = self.keys_of(b)
            for h in range(self.heads):
                group = h // (self.heads // self.kv_heads)
                keys, values = ([x((starts[1][b] + i) * self.kv_heads + group) for i in range(length)] for x in (k, v))
                factor = {name: numbers[b * self.kv_heads + group] for name, numbers in scales.items()}
                for i in range(queries) if self.rows is None else sorted(set(self.rows) & set(range(queries))):
                    seen = min(length, max(0, i + length - queries + 1)) if self.causal else length
                    scale = self.head_dim**-0.5 * factor["q"] * factor["k"]
                    at = starts[0][b] + i
                    expected, total_lse = attend(q(at * self.heads + h), keys[:seen], values[:seen], scale)
                    got = [x / factor["v"] for x in out(at * self.heads + h)]
                    result.take(got, lse[h * total + at], expected, total_lse)
            untouched -= set(range(starts[0][b], starts[0][b] + queries))
        for row in untouched:
            kept: Row = [7.0] * self.head_dim
            for h in range(self.heads):
                result.take(out(row * self.heads + h), lse[h * total + row], kept, 7.0)
