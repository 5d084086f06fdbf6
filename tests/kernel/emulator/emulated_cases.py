"""Random problems for the emulated kernels, checked against float64."""

from __future__ import annotations

import ctypes
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from emulated import DTYPES, Library, Tensor, ViolationError, attend, operand, structure

Row = Sequence[float]
TOLERANCES = {"fp16": 2e-3, "bf16": 1.6e-2, "e4m3": 6e-2}  # of outputs, for values of size 1
LSE_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Local:
    """A window, a chunk, a cap of the scores, and sinks."""

    left: int = -1
    right: int = -1
    chunk: int = 0
    softcap: float = 0.0
    sinks: tuple[float, ...] = ()

    def sees(self, position: int, key: int) -> bool:
        if 0 <= self.left < position - key or 0 <= self.right < key - position:
            return False
        return self.chunk == 0 or (position >= 0 and position // self.chunk == key // self.chunk)

    def with_causal(self, causal: bool) -> Local:
        return replace(self, right=0) if causal else self

    def write(self, library: Library, arguments: Any) -> None:
        arguments.local.enabled = 1
        arguments.local.window_left, arguments.local.window_right = self.left, self.right
        arguments.local.chunk, arguments.local.softcap = self.chunk, self.softcap
        if self.sinks:
            arguments.sinks = library.tensor("sinks", (len(self.sinks),), self.sinks, "fp32").address


@dataclass
class Result:
    """The largest errors of a launch, and how long it took."""

    seconds: float
    error: float = 0.0
    lse_error: float = 0.0

    def take(self, got: Row, got_lse: float, expected: Row, expected_lse: float) -> None:
        distances = [abs(x - y) for x, y in zip(got, expected, strict=True)]
        self.error = max(self.error, *(math.inf if math.isnan(d) else d for d in distances))
        if got_lse != expected_lse:
            distance = abs(got_lse - expected_lse)
            self.lse_error = max(self.lse_error, math.inf if math.isnan(distance) else distance)

    def check(self, dtype: str) -> None:
        if self.error > TOLERANCES[dtype] or self.lse_error > (0.05 if dtype == "e4m3" else LSE_TOLERANCE):
            raise ViolationError(f"wrong values: errors of {self.error:.3g} in the output and {self.lse_error:.3g} in the lse")


@dataclass
class Draw:
    """Normal numbers for the operands of one launch."""

    library: Library
    seed: int
    numbers: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = random.Random(self.seed)

    def tensor(self, name: str, shape: Sequence[int], kind: str) -> Tensor:
        normal = self.numbers.gauss
        return self.library.tensor(name, shape, [normal(0.0, 1.0) for _ in range(math.prod(shape))], kind)


def timed(library: Library, function: str, arguments: ctypes.Structure, *, replays: bool = False) -> Result:
    """Launch, and return a result without errors yet."""
    start = time.perf_counter()
    library.call(function, arguments, replays=replays)
    return Result(time.perf_counter() - start)


def rows_of(tensor: Tensor, columns: int) -> Callable[[int], Row]:
    values = tensor.values()
    return lambda row: values[row * columns : (row + 1) * columns]


def expect(
    q: Row, keys: Sequence[Row], values: Sequence[Row], scale: float, local: Local, position: int, head: int
) -> tuple[list[float], float]:
    """Return what a query at this position gives in float64."""
    seen = [i for i in range(len(keys)) if local.sees(position, i)]
    cap = local.softcap
    sink = local.sinks[head] if local.sinks else None
    return attend(q, [keys[i] for i in seen], [values[i] for i in seen], scale, cap, sink)


@dataclass(frozen=True)
class Attention:
    """A dense problem. ``rows`` says which queries are checked, None for all."""

    head_dim: int
    sq: int
    sk: int
    dtype: str = "fp16"
    causal: bool = False
    batch: int = 1
    heads: int = 1
    kv_heads: int = 1
    max_ctas: int = 0
    has_counter: bool = True
    rows: tuple[int, ...] | None = None
    local: Local | None = None
    seed: int = 1

    def run(self, library: Library) -> Result:
        draw = Draw(library, self.seed)
        arguments = structure("FlashcoreAttentionArguments")()
        q = draw.tensor("q", (self.batch, self.sq, self.heads, self.head_dim), self.dtype)
        k, v = (draw.tensor(name, (self.batch, self.sk, self.kv_heads, self.head_dim), self.dtype) for name in "kv")
        out = library.empty("out", q.shape, self.dtype)
        lse = library.empty("lse", (self.batch, self.heads, self.sq), "fp32")
        for name in ("causal", "max_ctas", "batch", "heads", "kv_heads", "sq", "sk", "head_dim"):
            setattr(arguments, name, int(getattr(self, name)))
        arguments.dtype, arguments.scale, arguments.lse = DTYPES[self.dtype], self.head_dim**-0.5, lse.address
        arguments.q, arguments.k, arguments.v, arguments.out = (operand(x) for x in (q, k, v, out))
        if self.has_counter:
            arguments.workspace = library.tensor("workspace", (8,), [0] * 8, "byte").address
        if self.local is not None:
            self.local.write(library, arguments)
        result = timed(library, "flashcore_attention_forward", arguments)
        self.compare(result, (q, k, v, out, lse))
        library.free()
        result.check(self.dtype)
        return result

    def compare(self, result: Result, tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]) -> None:
        q, k, v, out = (rows_of(tensor, self.head_dim) for tensor in tensors[:4])
        lse = tensors[4].values()
        local = (self.local or Local()).with_causal(self.causal)
        for b in range(self.batch):
            for h in range(self.heads):
                group = h // (self.heads // self.kv_heads)
                keys, values = ([x((b * self.sk + i) * self.kv_heads + group) for i in range(self.sk)] for x in (k, v))
                for i in self.rows if self.rows is not None else range(self.sq):
                    at = (b * self.sq + i) * self.heads + h
                    expected = expect(q(at), keys, values, self.head_dim**-0.5, local, i + self.sk - self.sq, h)
                    result.take(out(at), lse[(b * self.heads + h) * self.sq + i], *expected)


@dataclass(frozen=True)
class Decode:
    """New queries of each sequence over a cache, contiguous or in pages."""

    head_dim: int
    lengths: tuple[int, ...]
    dtype: str = "fp16"
    cache: str = ""  # its type, or that of the query
    heads: int = 2
    kv_heads: int = 2
    sq: int = 1
    causal: bool = True
    page_size: int = 0
    splits: int = 0
    max_ctas: int = 0
    deterministic: bool = False
    new_keys: int = 0  # the last of each sequence, which the launch appends
    local: Local | None = None
    seed: int = 1

    def run(self, library: Library) -> Result:
        draw = Draw(library, self.seed)
        arguments = structure("FlashcoreDecodeArguments")()
        batch, capacity, kind = len(self.lengths), max(*self.lengths, 1), self.cache or self.dtype
        q = draw.tensor("q", (batch, self.sq, self.heads, self.head_dim), self.dtype)
        page = self.page_size or capacity
        width = -(-capacity // page)
        pages = batch * width + (3 if self.page_size else 0)
        table = list(range(pages))
        if self.page_size:
            draw.numbers.shuffle(table)
            arguments.page_table = library.tensor("page_table", (batch, width), table[: batch * width], "int32").address
            arguments.table_stride, arguments.table_width, arguments.pages = width, width, pages
        k, v = (draw.tensor(name, (pages, page, self.kv_heads, self.head_dim), kind) for name in "kv")
        new = [
            draw.tensor(f"{x}_new", (batch, self.new_keys, self.kv_heads, self.head_dim), self.dtype)
            for x in "kv"
            if self.new_keys
        ]
        out = library.empty("out", q.shape, "bf16" if self.dtype == "e4m3" else self.dtype)
        lse = library.empty("lse", (batch, self.heads, self.sq), "fp32")
        for name in (
            "causal",
            "splits",
            "max_ctas",
            "deterministic",
            "page_size",
            "heads",
            "kv_heads",
            "sq",
            "head_dim",
            "new_keys",
        ):
            setattr(arguments, name, int(getattr(self, name)))
        arguments.batch, arguments.capacity, arguments.dtype, arguments.scale = (
            batch,
            capacity,
            DTYPES[self.dtype],
            self.head_dim**-0.5,
        )
        arguments.cache_dtype, arguments.new_dtype = DTYPES[kind], DTYPES[self.dtype]
        arguments.q, arguments.k, arguments.v, arguments.out = (operand(x) for x in (q, k, v, out))
        if new:
            arguments.k_new, arguments.v_new = map(operand, new)
        arguments.lengths = library.tensor("lengths", (batch,), [n - self.new_keys for n in self.lengths], "int32").address
        arguments.lse = lse.address
        if self.local is not None:
            self.local.write(library, arguments)
        add_workspace(library, "flashcore_decode_workspace_bytes", arguments)
        result = timed(library, "flashcore_decode", arguments)
        slot = lambda b, i: table[b * width + i // page] * page + i % page  # noqa: E731
        for cached, added in zip((k, v), new, strict=False):
            self.check_appended(cached, added, slot)
        self.compare(result, (q, k, v, out, lse), slot)
        library.free()
        result.check(self.dtype)
        return result

    def check_appended(self, cached: Tensor, added: Tensor, slot: Callable[[int, int], int]) -> None:
        columns = self.kv_heads * self.head_dim
        cache, new = rows_of(cached, columns), rows_of(added, columns)
        for b, length in enumerate(self.lengths):
            for i in range(self.new_keys):
                if cached.kind == added.kind and list(cache(slot(b, length - self.new_keys + i))) != list(
                    new(b * self.new_keys + i)
                ):
                    raise ViolationError(f"new key {i} of sequence {b} is not in the cache")

    def compare(
        self, result: Result, tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor], slot: Callable[[int, int], int]
    ) -> None:
        q, k, v, out = (rows_of(tensor, self.head_dim) for tensor in tensors[:4])
        lse = tensors[4].values()
        local = (self.local or Local()).with_causal(self.causal)
        for b, length in enumerate(self.lengths):
            for h in range(self.heads):
                group = h // (self.heads // self.kv_heads)
                keys, values = ([x(slot(b, i) * self.kv_heads + group) for i in range(length)] for x in (k, v))
                for i in range(self.sq):
                    at = (b * self.sq + i) * self.heads + h
                    expected = expect(q(at), keys, values, self.head_dim**-0.5, local, i + length - self.sq, h)
                    result.take(out(at), lse[(b * self.heads + h) * self.sq + i], *expected)


def add_workspace(library: Library, function: str, arguments: Any) -> None:
    """Give a launch the workspace that it asks for, full of zeros."""
    measure = getattr(library.c, function)
    measure.restype = ctypes.c_int64
    arguments.size = ctypes.sizeof(arguments)
    size = measure(ctypes.byref(arguments))
    if size < 0:
        raise ViolationError(library.c.flashcore_error_string().decode())
    arguments.workspace = library.zeros("workspace", size).address
    arguments.workspace_bytes = size
