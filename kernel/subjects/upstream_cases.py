"""The cases of FlashAttention-3's own tests, ``hopper/test_flash_attn.py``, without FP8 (upstream_fp8.py) and backward.

That file draws its inputs and asserts. Here are the values of its parameters, without cases that it skips or that differ in nothing but
random numbers. ``plan`` puts the cases of one seed into an order of which every sample is a beginning. First come cases that hold every pair
of parameter values of a test, then each group has its turn.
"""

from __future__ import annotations

import functools
import itertools
import operator
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

LENGTHS = "seqlen_q,seqlen_k"
MASK = "causal,local"
SAME = 0
"""``dv`` of a case whose values have the dimension of its keys, or that has no values."""
BOTH = (False, True)
HEADS = ("mha", "mqa", "gqa")
D = (64, 96, 128, 192, 256)
OTHER_DV = {64: (256, 512), 192: (128,)}
"""Dimensions of the values that upstream tests in addition to ``d``."""
SHAPES = {
    "output": "1x1 64x128 128x192 256x256 239x1 799x3 113x203 113x128 128x217 113x211 108x256 256x512 384x256 640x128 512x256 "
    "1024x1024 1023x1024 1024x1023 4096x4096 4224x4224",
    "varlen_output": "1x1 1x3 2x1 511x1 3x513 64x128 128x128 256x256 113x203 128x217 113x211 108x256 256x512 307x256 640x128 "
    "512x256 1024x1024 1023x1024 1024x1023 2048x2048 4096x4096",
    "kvcache": "1x128 1x339 3x1024 64x800 64x256 3x799 64x2048 16x20000 128x128 256x512 2048x3577",
    "cluster": "64x8192",
}
_DENSE: Mapping[str, Sequence[Any]] = {
    "dtype": ("bf16", "fp16"), "mha_type": HEADS, "has_qv": BOTH, "deterministic": (False,), "softcap": (0.0, 15.0), "local": BOTH,
    "causal": BOTH, "d": D,
}  # fmt: skip
TESTS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "output": {**_DENSE, "V_colmajor": (False,)},
    "varlen_output": {**_DENSE, "add_unused_qkv": BOTH},
    "kvcache": {
        "dtype": ("bf16",), "mha_type": HEADS, "new_kv": BOTH, MASK: ((False, False), (True, False), (False, True)),
        "seqlen_new_eq_seqlen_q": BOTH, "has_rotary_seqlens": (False,), "rotary_interleaved": BOTH, "rotary_fraction": (0.0, 0.5, 1.0),
        "page_size": (None, 1, 4, 128), "has_leftpad": BOTH, "has_batch_idx": BOTH, "varlen_q": BOTH, "d": (128,),
    },
    "cluster": {"dtype": ("bf16",), "causal": BOTH, "d": (128,)},
    "varlen_combine_linearize": {"dtype": ("bf16",)},
    "combine": {
        "dtype": ("fp32", "fp16", "bf16"), "d": (64, 96, 128, 192, 256, 512), "seqlen": (1, 2, 3, 32, 64, 256, 113, 108, 640, 1024),
        "num_splits": (1, 2, 3, 5, 17, 32, 55, 97, 133),
    },
}  # fmt: skip
"""The parameters of each ``test_flash_attn_NAME``. The lengths are in ``SHAPES``."""
SERVED, APART = (
    ("output", "varlen_output", "kvcache", "cluster", "varlen_combine_linearize"),
    ("output", "varlen_output", "combine"),
)
"""The tests of the samples, and those with cases that are counted apart: another dimension of the values, and the merge of results."""
GROUPS = (
    "dense", "dense-window", "dense-softcap", "ragged", "ragged-window", "ragged-softcap", "cache", "cache-paged", "append",
    "append-paged", "rotary", "rotary-paged",
)  # fmt: skip
APART_GROUPS = ("values", "qv", "combine")
SAMPLES: Mapping[int, tuple[slice, slice]] = {
    600: (slice(0, 600), slice(0, 150)),
    2500: (slice(600, 2500), slice(150, 500)),
    12000: (slice(2500, 12000), slice(500, 500)),
}
"""Which part of the order each sample adds to the one before, and of that of the cases that are counted apart."""
CONSTANT = ("deterministic", "V_colmajor", "has_rotary_seqlens")
DRAWN = 4000  # cases of a test that hold every pair of its values
TRIES = 400  # cases from which the next one of a cover is chosen


class Case(NamedTuple):
    """One call of a test. ``dv`` is the dimension of its values if that is not ``d``."""

    test: str
    params: tuple[tuple[str, Any], ...]
    dv: int

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the test, except that types have short names."""
        p = dict(self.params)
        for names in (LENGTHS, MASK):
            if names in p:
                p |= dict(zip(names.split(","), p.pop(names), strict=True))
        return p

    def __str__(self) -> str:
        """Name the case in one line."""
        values = " ".join(f"{name}={value}" for name, value in self.arguments.items())
        dv = f" dv={self.dv}" if self.dv else ""
        return f"test_flash_attn_{self.test} {values}{dv}"


def list_cases(test: str, *, apart: bool) -> list[Case]:
    """List the cases of a test that differ in more than random numbers, served ones or those counted apart."""
    axes = dict(TESTS[test])
    if test in SHAPES:
        axes[LENGTHS] = [tuple(map(int, shape.split("x"))) for shape in SHAPES[test].split()]
    if test == "combine" and not apart:
        return []
    found = []
    for values in itertools.product(*axes.values()):
        p = dict(zip(axes, values, strict=True))
        if _is_distinct(p):
            found += [Case(test, tuple(p.items()), dv) for dv in _dimensions(p, apart=apart)]
    return found


def _dimensions(p: Mapping[str, Any], *, apart: bool) -> tuple[int, ...]:
    """Return the dimensions of the values that the test asks for with these parameters."""
    if "has_qv" not in p:
        return (SAME,)
    if p["has_qv"]:
        return OTHER_DV[64] if apart and p["d"] == 64 else ()  # noqa: PLR2004 - the dimension that upstream tests with qv
    return OTHER_DV.get(p["d"], ()) if apart else (SAME,)


def _is_distinct(p: Mapping[str, Any]) -> bool:
    """Return whether upstream runs the case, and no other has the same meaning."""
    if "page_size" not in p:
        return True
    sq, sk = p[LENGTHS]
    if p["page_size"] and sk % p["page_size"]:
        return False
    if p["rotary_interleaved"] and not p["rotary_fraction"]:
        return False
    if not p["new_kv"]:
        return not p["rotary_fraction"] and p["seqlen_new_eq_seqlen_q"]
    return p["seqlen_new_eq_seqlen_q"] or sq > 1


def group_of(case: Case) -> str:
    """Name the group of the case: each is a row of the gate."""
    p = case.arguments
    if case.dv:
        return "qv" if p["has_qv"] else "values"
    if case.test == "combine":
        return "combine"
    if case.test == "kvcache":
        kind = "rotary" if p["rotary_fraction"] else "append" if p["new_kv"] else "cache"
        return kind + ("-paged" if p["page_size"] else "")
    kind = "ragged" if case.test.startswith("varlen") else "dense"
    return kind + ("-softcap" if p.get("softcap") else "-window" if p.get("local") else "")


def list_features(case: Case) -> Iterator[str]:
    """Name all that a case uses."""
    p = case.arguments
    yield case.test
    yield p["dtype"]
    for name in ("mha_type", "d", "page_size"):
        if p.get(name) is not None:
            yield f"{name.removesuffix('_size').removesuffix('_type')} {p[name]}"
    for feature, is_used in (
        ("causal", p.get("causal")), ("window", p.get("local")), ("softcap", p.get("softcap")), ("append", p.get("new_kv")),
        ("rotary", p.get("rotary_fraction")), ("interleaved rotary", p.get("rotary_interleaved")),
        ("left padding", p.get("has_leftpad")), ("batch index", p.get("has_batch_idx")), ("packed queries", p.get("varlen_q")),
        ("unused rows", p.get("add_unused_qkv")), ("qv", p.get("has_qv")), (f"dv {case.dv}", case.dv),
    ):  # fmt: skip
        if is_used:
            yield feature


def pairs_of(case: Case) -> Iterator[tuple[Any, ...]]:
    """Yield every pair of parameter values of a case."""
    yield from itertools.combinations((*(each for each in case.params if each[0] not in CONSTANT), ("dv", case.dv)), 2)


@functools.cache
def plan(seed: int, *, apart: bool = False) -> tuple[Case, ...]:
    """Put all cases into the order of a seed: first those that cover all pairs of each test, then one of each group in turn."""
    draw = random.Random(f"{seed} {apart}")  # noqa: S311 - no secret
    covers, rest = [], []
    for test in APART if apart else SERVED:
        cases = list_cases(test, apart=apart)
        draw.shuffle(cases)
        covers.append(choose_cover(cases[:DRAWN], draw))
        chosen = set(covers[-1])
        rest += [case for case in cases if case not in chosen]
    turns: dict[str, list[Case]] = {group: [] for group in (APART_GROUPS if apart else GROUPS)}
    for case in rest:
        turns[group_of(case)].append(case)
    return tuple(
        case for lists in (covers, turns.values()) for turn in itertools.zip_longest(*lists) for case in turn if case is not None
    )


def choose_cover(cases: Sequence[Case], draw: random.Random) -> list[Case]:
    """Choose few cases with every pair of values that the cases have. The next one is the best of some."""
    bits: dict[tuple[Any, ...], int] = {}
    masks = []
    for case in cases:
        found = [bits.get(pair) or bits.setdefault(pair, 1 << len(bits)) for pair in pairs_of(case)]
        masks.append(functools.reduce(operator.or_, found))
    uncovered, chosen = (1 << len(bits)) - 1, []
    while uncovered:
        some = draw.sample(range(len(cases)), min(TRIES, len(cases)))
        best = max(some, key=lambda i: (masks[i] & uncovered).bit_count())
        if not masks[best] & uncovered:
            best = next(i for i, mask in enumerate(masks) if mask & uncovered)
        uncovered &= ~masks[best]
        chosen.append(cases[best])
    return chosen


def check(sample: int, group: str) -> None:
    """ValueError names what is unknown."""
    if sample not in SAMPLES:
        raise ValueError(f"sample: must be one of {', '.join(map(str, SAMPLES))}, is {sample!r}")
    if group not in {*GROUPS, *APART_GROUPS}:
        raise ValueError(f"group: must be one of {', '.join((*GROUPS, *APART_GROUPS))}, is {group!r}")


def choose(sample: int, group: str, seed: int) -> list[Case]:
    """Return the cases of one group that a sample adds."""
    check(sample, group)
    apart = group in APART_GROUPS
    return [case for case in plan(seed, apart=apart)[SAMPLES[sample][apart]] if group_of(case) == group]
