"""Decodes over caches of E4M3 with a scale for each key or page, checked against float64."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from operator import mul
from typing import Any

from emulated import DTYPES, Library, Tensor, ViolationError, encode, operand, structure
from emulated_cases import LSE_TOLERANCE, TOLERANCES, Draw, Result, Row, add_workspace, rows_of, timed

HARD = (0.0, 1e-30, 1e4, -1.0, 3e-6, 0.25)
FP16_STEP = 2.0**-24


def attend(q: Row, rows: list[list[Row]], factors: list[list[float]], scale: float) -> tuple[list[float], float]:
    """Attend to keys and values with these factors of scores and exponentials in float64."""
    if not rows[0]:
        return [0.0] * len(q), -math.inf
    scores = [scale * factor * sum(map(mul, q, key)) for key, factor in zip(rows[0], factors[0], strict=True)]
    largest = max(scores)
    weights = [math.exp(score - largest) for score in scores]
    scaled = list(map(mul, weights, factors[1]))
    return [sum(map(mul, scaled, column)) / sum(weights) for column in zip(*rows[1], strict=True)], largest + math.log(
        sum(weights)
    )


@dataclass(frozen=True)
class Scaled:
    """A decode. ``scaled`` names the caches whose keys, or pages, have scales. ``hard``: that many of a sequence's values have hard ones."""

    head_dim: int
    lengths: tuple[int, ...]
    dtype: str = "fp16"
    heads: int = 2
    kv_heads: int = 2
    sq: int = 1
    page_size: int = 0
    per_page: bool = False
    scaled: str = "kv"
    infinite: str = ""  # the cache whose keys 3 and 5 have infinite scales
    hard: bool = False
    growth: float = 0.0  # log2 of the factor from the scale of a value to the next
    heads_first: bool = False  # the scales are (kv heads, pages, keys) in memory
    new_keys: int = 0
    splits: int = 0
    max_ctas: int = 0
    seed: int = 1

    @property
    def page(self) -> int:
        return self.page_size or max(self.lengths)

    @property
    def width(self) -> int:
        return -(-max(self.lengths) // self.page)

    def run(self, library: Library) -> Result:
        draw, pages = Draw(library, self.seed), len(self.lengths) * self.width + (2 if self.page_size else 0)
        table = draw.numbers.sample(range(pages), pages) if self.page_size else list(range(pages))
        caches = [draw.tensor(name, (pages, self.page, self.kv_heads, self.head_dim), "e4m3") for name in "kv"]
        a = self.start(library, pages)
        q = draw.tensor("q", (len(self.lengths), self.sq, self.heads, self.head_dim), self.dtype)
        out = library.empty("out", q.shape, "bf16" if self.dtype == "e4m3" else self.dtype)
        lse = library.empty("lse", (len(self.lengths), self.heads, self.sq), "fp32")
        a.q, a.k, a.v, a.out, a.lse = *map(operand, (q, *caches, out)), lse.address
        if self.page_size:
            a.page_table = library.tensor(
                "page_table", (len(self.lengths), self.width), table[: len(self.lengths) * self.width], "int32"
            ).address
        scales = {name: self.give_scales(library, a, name, draw, table) for name in self.scaled}
        new = [
            draw.tensor(f"{x}_new", (len(self.lengths), self.new_keys, self.kv_heads, self.head_dim), self.dtype)
            for x in "kv"
            if self.new_keys
        ]
        if new:
            a.k_new, a.v_new = map(operand, new)
        add_workspace(library, "flashcore_decode_workspace_bytes", a)
        result = timed(library, "flashcore_decode", a)
        for name, cache, rows in zip("kv", caches, new, strict=False):
            self.check_appended(cache, rows, scales.get(name), table)
        self.compare((q, *caches, out, lse), scales, table)
        library.free()
        return result

    def start(self, library: Library, pages: int) -> Any:
        a = structure("FlashcoreDecodeArguments")()
        for name in ("heads", "kv_heads", "sq", "head_dim", "page_size", "new_keys", "splits", "max_ctas"):
            setattr(a, name, getattr(self, name))
        a.batch, a.capacity, a.causal, a.scale = len(self.lengths), max(self.lengths), 1, self.head_dim**-0.5
        a.dtype, a.cache_dtype, a.new_dtype = DTYPES[self.dtype], DTYPES["e4m3"], DTYPES[self.dtype]
        a.pages, a.table_width, a.table_stride = pages, self.width, self.width
        a.lengths = library.tensor("lengths", (len(self.lengths),), [n - self.new_keys for n in self.lengths], "int32").address
        return a

    def give_scales(self, library: Library, a: Any, name: str, draw: Draw, table: list[int]) -> list[float]:
        """Give each key or page of a cache a scale, and return them as (pages, keys, kv heads). Those of unused keys are NaN."""
        keys, pages = (1 if self.per_page else self.page), len(table)
        values = [draw.numbers.uniform(0.2, 2.0) for _ in range(pages * keys * self.kv_heads)]
        if self.hard:
            values = [draw.numbers.choice(HARD) if draw.numbers.random() < 0.2 else x for x in values]
        used = {self.place(b, i, h, table) for b, n in enumerate(self.lengths) for i in range(n) for h in range(self.kv_heads)}
        values = [x if i in used else math.nan for i, x in enumerate(values)]
        for b, h in itertools.product(
            range(len(self.lengths)), range(self.kv_heads) if name == "v" and not self.per_page else ()
        ):
            for i in range(self.lengths[b]):
                values[self.place(b, i, h, table)] *= 2.0 ** (self.growth * i)
        for b, i, h in itertools.product(range(len(self.lengths)), (3, 5), range(self.kv_heads)):
            if name == self.infinite:
                values[self.place(b, i, h, table)] = math.inf
        strides, stored = (keys * self.kv_heads, self.kv_heads, 1), values
        if self.heads_first:
            strides = (keys, 1, pages * keys)
            stored = [values[(i % (pages * keys)) * self.kv_heads + i // (pages * keys)] for i in range(len(values))]
        setattr(a, f"{name}_scale", library.tensor(f"{name}_scale", (len(stored),), stored, "fp32").address)
        setattr(a, f"{name}_scale_per_key", 1)
        for kind, stride in zip(("batch", "key", "head"), strides, strict=True):
            setattr(a, f"{name}_scale_{kind}_stride", 0 if kind == "key" and self.per_page else stride)
        return values

    def place(self, sequence: int, key: int, head: int, table: list[int]) -> int:
        page = table[sequence * self.width + key // self.page]
        return ((page if self.per_page else page * self.page + key % self.page) * self.kv_heads) + head

    def row(self, sequence: int, key: int, head: int, table: list[int]) -> int:
        return (table[sequence * self.width + key // self.page] * self.page + key % self.page) * self.kv_heads + head

    def check_appended(self, cache: Tensor, new: Tensor, scales: list[float] | None, table: list[int]) -> None:
        got, given = rows_of(cache, self.head_dim), rows_of(new, self.head_dim)
        for b, i, h in itertools.product(range(len(self.lengths)), range(self.new_keys), range(self.kv_heads)):
            key = self.lengths[b] - self.new_keys + i
            scale = encode([1.0 if scales is None else scales[self.place(b, key, h, table)]], "fp32")
            (divisor,) = memoryview(scale).cast("f")
            rounded = [math.copysign(min(abs(x / divisor), 448.0), x) for x in given((b * self.new_keys + i) * self.kv_heads + h)]
            if self.dtype != "e4m3" and encode(rounded, "e4m3") != encode(list(got(self.row(b, key, h, table))), "e4m3"):
                raise ViolationError(f"wrong bits of new key {i} of sequence {b}")

    def compare(self, tensors: tuple[Tensor, ...], scales: dict[str, list[float]], table: list[int]) -> None:
        q, k, v, out = (rows_of(tensor, self.head_dim) for tensor in tensors[:4])
        lse, group = tensors[4].values(), self.heads // self.kv_heads
        for b, h, i in itertools.product(range(len(self.lengths)), range(self.heads), range(self.sq)):
            keys = range(max(0, self.lengths[b] - (self.sq - 1 - i)))
            factors = [[scales[x][self.place(b, key, h // group, table)] if x in scales else 1.0 for key in keys] for x in "kv"]
            rows = [[x(self.row(b, key, h // group, table)) for key in keys] for x in (k, v)]
            expected, expected_lse = attend(q((b * self.sq + i) * self.heads + h), rows, factors, self.head_dim**-0.5)
            allowed = TOLERANCES[self.dtype] * max([abs(x) for x in expected if math.isfinite(x)], default=1.0) + FP16_STEP
            for x, y in zip(out((b * self.sq + i) * self.heads + h), expected, strict=True):
                if math.isnan(x) != math.isnan(y) or (not math.isnan(y) and x != y and not abs(x - y) <= allowed):
                    raise ViolationError(f"wrong values: {x} for {y}")
            got = lse[(b * self.heads + h) * self.sq + i]
            if math.isnan(got) != math.isnan(expected_lse) or abs(got - expected_lse) > LSE_TOLERANCE * max(
                1.0, abs(expected_lse)
            ):
                raise ViolationError(f"wrong values: a log-sum-exp of {got} for {expected_lse}")
