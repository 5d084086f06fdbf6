"""The cases of E4M3 in FlashAttention-3's own tests. ``plan`` puts those that FlashCore serves into the order of a seed.

The rest is refused by name: windows, chunks and softcap, packed queries over a cache, rotary embedding, left padding, pages of fewer than 16 keys,
more than 16 queries over a cache, and a batch index without pages unless a sequence holds a power of two of keys. It is a page then. Upstream's file can run values in columns, but leaves them out of its list.

A test of upstream loops over a random chunk and none. Here each is a case of its own, ``chunk``.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

SHAPES = {
    "output": "1x1 64x128 128x192 256x256 239x1 799x3 113x203 113x128 128x217 113x211 108x256 256x512 384x256 640x128 512x256 "
    "1024x1024 1023x1024 1024x1023 4096x4096 4224x4224",
    "varlen_output": "1x1 1x3 2x1 511x1 3x513 64x128 128x128 256x256 113x203 128x217 113x211 108x256 256x512 307x256 640x128 "
    "512x256 1024x1024 1023x1024 1024x1023 2048x2048 4096x4096",
    "kvcache": "1x128 1x339 3x1024 64x800 64x256 3x799 64x2048 16x20000 128x128 256x512 2048x3577",
}
BOTH = (False, True)
_DENSE: Mapping[str, Sequence[Any]] = {
    "dtype": ("e4m3",), "mha_type": ("mha", "mqa", "gqa"), "has_qv": (False,), "deterministic": (False,), "softcap": (0.0, 15.0),
    "local": BOTH, "causal": BOTH, "d": (64, 96, 128, 192, 256), "chunk": BOTH,
}  # fmt: skip
TESTS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "output": {**_DENSE, "V_colmajor": BOTH},
    "varlen_output": {**_DENSE, "add_unused_qkv": BOTH},
    "kvcache": {
        "dtype": ("e4m3",), "mha_type": ("mha", "mqa", "gqa"), "new_kv": BOTH, "causal": BOTH, "local": BOTH,
        "seqlen_new_eq_seqlen_q": BOTH, "has_rotary_seqlens": (False,), "rotary_interleaved": BOTH, "rotary_fraction": (0.0, 0.5, 1.0),
        "page_size": (None, 1, 4, 128), "has_leftpad": BOTH, "has_batch_idx": BOTH, "varlen_q": BOTH, "d": (128,), "chunk": BOTH,
    },
}  # fmt: skip
GROUPS = ("fp8-dense", "fp8-columns", "fp8-cache", "fp8-packed")
SAMPLE = 1000
COLUMN_STEP = 16  # keys of upstream's values in columns
MOST_QUERIES, LEAST_PAGE = 16, 16


class Case(NamedTuple):
    """One call of a test."""

    test: str
    params: tuple[tuple[str, Any], ...]
    dv: int = 0

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the test, except that types have short names, and ``chunk``."""
        return dict(self.params)

    def __str__(self) -> str:
        """Name the case in one line."""
        return f"test_flash_attn_{self.test} " + " ".join(f"{name}={value}" for name, value in self.params)


def list_cases(test: str) -> Iterator[Case]:
    """List the cases of a test that upstream runs, and that differ in more than random numbers."""
    axes = TESTS[test]
    for shape, values in itertools.product(SHAPES[test].split(), itertools.product(*axes.values())):
        sq, sk = map(int, shape.split("x"))
        p = {**dict(zip(axes, values, strict=True)), "seqlen_q": sq, "seqlen_k": sk}
        if _is_distinct(p):
            yield Case(test, tuple(p.items()))


def _is_distinct(p: Mapping[str, Any]) -> bool:
    if "page_size" not in p:
        return not p.get("V_colmajor") or p["seqlen_k"] % COLUMN_STEP == 0
    sq, sk = p["seqlen_q"], p["seqlen_k"]
    if (p["page_size"] and sk % p["page_size"]) or (p["causal"] and p["local"]) or (sq > sk and p["new_kv"]):
        return False
    if (p["chunk"] and not (p["causal"] or p["local"])) or (p["rotary_interleaved"] and not p["rotary_fraction"]):
        return False
    if not p["new_kv"]:
        return not p["rotary_fraction"] and bool(p["seqlen_new_eq_seqlen_q"])
    return p["seqlen_new_eq_seqlen_q"] or sq > 1


def find_refused(case: Case) -> str:
    """Name the first feature of a case that FlashCore refuses, or nothing."""
    p = case.arguments
    return next(
        (
            feature
            for feature, is_used in (
                ("packed queries over a cache", p.get("varlen_q")),
                ("softcap", p.get("softcap")),
                ("window", p["local"]),
                ("chunk", p["chunk"]),
                ("rotary", p.get("rotary_fraction")),
                ("left padding", p.get("has_leftpad")),
                ("small pages", (p.get("page_size") or LEAST_PAGE) < LEAST_PAGE),
                ("batch index without pages", p.get("has_batch_idx") and not p["page_size"] and p["seqlen_k"].bit_count() > 1),
                ("more than 16 queries over a cache", case.test == "kvcache" and p["seqlen_q"] > MOST_QUERIES),
            )
            if is_used
        ),
        "",
    )


def group_of(case: Case) -> str:
    """Name the group of a case: each is a row of the gate."""
    if case.test != "output":
        return GROUPS[2] if case.test == "kvcache" else GROUPS[3]
    return GROUPS[1] if case.arguments["V_colmajor"] else GROUPS[0]


def list_features(case: Case) -> Iterator[str]:
    """Name all that a case uses."""
    p = case.arguments
    yield from (case.test, p["dtype"], f"mha {p['mha_type']}", f"d {p['d']}")
    features = ("causal", "new_kv", "page_size", "has_batch_idx", "V_colmajor", "add_unused_qkv")
    yield from (feature for feature in features if p.get(feature))


@functools.cache
def plan(seed: int) -> tuple[Case, ...]:
    """Return the served cases in the order of a seed."""
    served = [case for test in TESTS for case in list_cases(test) if not find_refused(case)]
    random.Random(f"{seed} fp8").shuffle(served)  # noqa: S311 - no secret
    return tuple(served)


def choose(sample: int, group: str, seed: int) -> list[Case]:
    """Return the cases of one group in a sample."""
    check(sample, group)
    return [case for case in plan(seed)[:sample] if group_of(case) == group]


def check(sample: int, group: str) -> None:
    """ValueError names what is unknown."""
    if sample != SAMPLE:
        raise ValueError(f"sample: must be {SAMPLE} for E4M3, is {sample!r}")
    if group not in GROUPS:
        raise ValueError(f"group: must be one of {', '.join(GROUPS)}, is {group!r}")
