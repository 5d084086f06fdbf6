"""Subject: FlashCore's decode: a few new queries of each sequence over a cache of keys and values.

Parameters of a workload: ``dtype`` (fp16, bf16), ``b``, ``h``, ``hkv`` (default h), ``sq`` (default 1), ``sk`` (keys of the longest
sequence), ``d``, ``lengths`` (see LENGTHS), ``causal`` (default true), ``page`` (keys of a page; 0: a contiguous cache), ``new`` (of the
keys, how many the call appends), ``splits``, ``deterministic``, ``max_ctas``, ``input`` (see INPUTS), ``flash`` (by FlashAttention-3's
function, which stands above the binding).

Whatever no sequence holds is NaN: the cache behind a sequence's end, the rest of its last page, pages that nobody has, and the slots
that the call is to fill. Pages lie in the pool in no order, and the table is garbage behind a sequence's last page. Only values go by the seed.

A launch that appends writes to the cache, and inputs are nobody's to write to: ``run`` then gives it a copy, and the whole copy is an
output, with MARK where the cache holds NaN, so that a lost row and a row too many are both seen. Such workloads are not timed.
"""

from __future__ import annotations

import importlib.util
import math
import pathlib
import sys
import tomllib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]


def _beside(name: str) -> ModuleType:
    """A module of this folder, which is no package: subjects are found by their files. Part of the binding in kernel/variants.toml."""
    spec = importlib.util.spec_from_file_location(f"flashcore_subjects_{name}", KERNEL / f"subjects/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


draws = _beside("draws")
ELEMENT_BYTES = 2
LSE_BYTES = 4
MARK = 77.0
SPARE_PAGES = 3
GARBAGE = (-1, 2**31 - 1, 12_345_678)
DEFAULTS: dict[str, Any] = {
    "dtype": "fp16",
    **dict.fromkeys(("b", "h", "hkv", "sk", "d")),
    "sq": 1,
    "lengths": "full",
    "causal": True,
    "page": 0,
    "new": 0,
    "splits": 0,
    "deterministic": False,
    "max_ctas": 0,
    "input": "normal",
    "flash": False,
}
DEVICE = "cuda"
INPUTS = ("normal", "large", "rising", "falling", "constant")  # of draws.py
OPTIONS = ("causal", "splits", "deterministic", "max_ctas")
CHOICES = {"dtype": ("fp16", "bf16"), "d": (64, 128, 256), "page": (0, 16, 64, 128, 256), "sq": range(1, 17)}


def _ragged(b: int, sk: int) -> list[int]:
    """Log-uniform from sk/128 to sk, short and long by turns: one long sequence weighs as much as many short ones."""
    return [round(sk * 128.0 ** (((b - 1 - i // 2 if i % 2 else i // 2) + 0.5) / b - 1.0)) for i in range(b)]


def _edges(b: int, sk: int) -> list[int]:
    """None, one, and just beside a page and a tile, up to sk."""
    around = [0, 1, sk, *(size + step for size in (16, 64, 128, 256) for step in (-1, 0, 1)), sk - 1]
    return [min(sk, around[i % len(around)]) for i in range(b)]


LENGTHS: dict[str, Callable[[int, int], list[int]]] = {"full": lambda b, sk: [sk] * b, "ragged": _ragged, "edges": _edges}


def build(root: pathlib.Path) -> dict[str, Any]:
    """How the kernel is built and what its machine code must look like, from kernel/variants.toml."""
    table = tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8"))["decode"]
    entries = [{**table["tiles"][entry["tile"]], **entry} for entry in table["entries"]]
    return {
        **{key: table[key] for key in ("library", "launchers", "includes", "binding")},
        "entries": [
            {
                "symbol": entry["symbol"],
                "source": f"kernel/instantiations/{entry['symbol']}.cu",
                **{key: entry[key] for key in ("max_registers", "requires", "dynamic_shared_bytes")},
                "loads_bulk_copies": True,
            }
            for entry in entries
        ],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Operations, bytes (every visible key and value read once, and what is small) and entry functions of one workload."""
    p = _complete(params)
    totals = _totals(p)
    pairs = sum(max(0, n - (p["sq"] - 1 - i if p["causal"] else 0)) for n in totals for i in range(p["sq"]))
    rows = p["b"] * p["h"] * p["sq"]
    elements = 2 * rows * p["d"] + 2 * p["hkv"] * p["d"] * (sum(totals) + p["b"] * p["new"])
    return {
        "flops": 4.0 * p["h"] * p["d"] * pairs,
        "bytes": float(ELEMENT_BYTES * elements + LSE_BYTES * rows),
        "entries": [f"flashcore_decode_d{p['d']}_{p['dtype']}"] if rows else [],
    }


def load(library: pathlib.Path) -> None:
    """Use this library for every later run."""
    if str(KERNEL) not in sys.path:
        sys.path.insert(0, str(KERNEL))
    import flashcore

    flashcore.load(library)


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Queries, caches, lengths before the call, table and new keys on the current CUDA device, and the options."""
    import torch

    p = _complete(params)
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[p["dtype"]]
    totals = torch.tensor(_totals(p), device=DEVICE)
    room = -(-p["sk"] // p["page"]) * p["page"] if p["page"] else p["sk"]
    values = {**p, "sk": room, "scale": 1.0, "draws": dtype}
    q, k, v = (tensor.to(dtype) for tensor in draws.INPUTS[p["input"]](values, generator))
    before = totals - p["new"]
    new = {f"{name}_new": _rows(tensor, before, p["new"]) for name, tensor in (("k", k), ("v", v)) if p["new"]}
    if p["new"] or not bool((totals == k.shape[1]).all()):
        unused = torch.arange(k.shape[1], device=DEVICE) >= before[:, None]
        for cache in (k, v):
            cache.masked_fill_(unused[:, :, None, None], math.nan)
    table = _table(p) if p["page"] else None
    if table is not None:
        k, v = (_paged(cache, table, p) for cache in (k, v))
    options = {key: p[key] for key in (*OPTIONS, "flash")}
    return {"q": q, "k": k, "v": v, "lengths": before.int(), "page_table": table, **new, **options}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Uninitialised results: ``out`` like the query, ``lse`` (batch, heads, queries), and the caches of a call that appends."""
    import torch

    q = inputs["q"]
    lse = torch.empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32, device=q.device)
    caches = {name: torch.empty_like(inputs[name]) for name in ("k", "v") if f"{name}_new" in inputs}
    return {"out": torch.empty_like(q), "lse": lse, **caches}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """One launch on the current stream."""
    import flashcore

    k, v = (inputs[name].clone() if f"{name}_new" in inputs else inputs[name] for name in ("k", "v"))
    q, new, table = inputs["q"], [inputs.get(f"{name}_new") for name in ("k", "v")], inputs["page_table"]
    if inputs["flash"]:
        results = flashcore.flash_attn_with_kvcache(
            q, k, v, *new, cache_seqlens=inputs["lengths"], page_table=table, causal=inputs["causal"], num_splits=inputs["splits"],
            return_softmax_lse=True,
        )  # fmt: skip
        for name, result in zip(("out", "lse"), results, strict=True):
            outputs[name].copy_(result)
    else:
        flashcore.decode(
            q, k, v, lengths=inputs["lengths"], page_table=table, k_new=new[0], v_new=new[1], out=outputs["out"], lse=outputs["lse"],
            **{name: inputs[name] for name in OPTIONS},
        )  # fmt: skip
    for name in outputs.keys() & {"k", "v"}:
        outputs[name].copy_({"k": k, "v": v}[name].nan_to_num(MARK))


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """PyTorch's own results for 16-bit inputs, the formula itself for float64 ones, a sequence at a time.

    The output is that of scaled_dot_product_attention, the log-sum-exp that of its flash backend. Queries that may see no key are
    0 and -inf (PyTorch gives NaN).
    """
    import torch

    q, table = inputs["q"], inputs["page_table"]
    b, sq, h, _ = q.shape
    exact = q.dtype == torch.float64
    out = torch.zeros_like(q)
    lse = torch.full((b, h, sq), -math.inf, dtype=torch.float64 if exact else torch.float32, device=q.device)
    caches = {name: inputs[name].clone() if f"{name}_new" in inputs else inputs[name] for name in ("k", "v")}
    for i, before in enumerate(inputs["lengths"].tolist()):
        k, v = (_append(caches[name], inputs.get(f"{name}_new"), i, before, table) for name in ("k", "v"))
        alike = [slice(row, row + 1) for row in range(sq)] if inputs["causal"] else [slice(0, sq)]
        for rows in alike:
            seen = len(k) - (sq - rows.stop)
            if seen > 0:
                out[i, rows], lse[i, :, rows] = (_formula if exact else _pytorch)(q[i, rows], k[:seen], v[:seen])
    changed = {name: caches[name].nan_to_num(MARK) for name in caches if f"{name}_new" in inputs}
    return {"out": out, "lse": lse, **changed}


def _append(cache: Any, new: Any, sequence: int, before: int, table: Any) -> Any:
    """The keys or values of one sequence in their order, (keys, kv heads, d), the new ones written into the cache too."""
    import torch

    count = 0 if new is None else new.shape[1]
    places = torch.arange(before + count, device=cache.device)
    if table is None:
        rows, where = cache[sequence], places
    else:
        page = cache.shape[1]
        rows, where = cache.flatten(0, 1), table[sequence, places // page].long() * page + places % page
    if count:
        rows[where[before:]] = new[sequence]
    return rows[where]


def _formula(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    """softmax(q k^T / sqrt(d)) v and its log-sum-exp, (rows, heads, d) and (heads, rows)."""
    import torch

    rows, heads, d = q.shape
    scores = q.reshape(rows, k.shape[1], -1, d).permute(1, 2, 0, 3).flatten(1, 2) @ k.permute(1, 2, 0) / math.sqrt(d)
    out = torch.softmax(scores, dim=-1) @ v.transpose(0, 1)
    return out.view(heads, rows, d).transpose(0, 1), torch.logsumexp(scores, dim=-1).view(heads, rows)


def _pytorch(q: Any, k: Any, v: Any) -> tuple[Any, Any]:
    import torch

    repeats = ((q, 1), *((cache, q.shape[1] // k.shape[1]) for cache in (k, v)))
    heads = [tensor.transpose(0, 1)[None].repeat_interleave(repeat, dim=1).contiguous() for tensor, repeat in repeats]
    out = torch.nn.functional.scaled_dot_product_attention(*heads)[0].transpose(0, 1)
    lse = torch.ops.aten._scaled_dot_product_flash_attention(*heads)[1][0, :, : len(q)]  # noqa: SLF001 - only it gives the LSE
    return out, lse


def _rows(cache: Any, start: Any, count: int) -> Any:
    """``count`` rows of each sequence from its own start."""
    import torch

    where = start[:, None] + torch.arange(count, device=cache.device)
    return cache[torch.arange(len(cache), device=cache.device)[:, None], where]


def _table(p: Mapping[str, Any]) -> Any:
    """Pages of each sequence: a fixed shuffle of the pool, and garbage where a sequence has no page any more."""
    import torch

    used = _used(p)
    shuffle = torch.randperm(used.numel() + SPARE_PAGES, generator=torch.Generator().manual_seed(1))[: used.numel()]
    garbage = torch.tensor(GARBAGE)[torch.arange(used.numel()) % len(GARBAGE)]
    return torch.where(used, shuffle.view_as(used), garbage.view_as(used)).int().to(DEVICE)


def _used(p: Mapping[str, Any]) -> Any:
    """Which pages of its row in the table each sequence has, on the host."""
    import torch

    return torch.tensor(_totals(p))[:, None] > torch.arange(-(-p["sk"] // p["page"])) * p["page"]


def _paged(cache: Any, table: Any, p: Mapping[str, Any]) -> Any:
    """The same rows in pages; pages that no sequence has hold NaN."""
    pages, used = cache.unflatten(1, (-1, p["page"])), _used(p).to(DEVICE)
    pool = pages.new_full((used.numel() + SPARE_PAGES, *pages.shape[2:]), math.nan)
    pool[table[used].long()] = pages[used]
    return pool


def _totals(p: Mapping[str, Any]) -> list[int]:
    """Keys of each sequence when the new ones are there."""
    return [max(n, p["new"]) for n in LENGTHS[p["lengths"]](p["b"], p["sk"])]


def _complete(params: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(params) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"{unknown[0]}: unknown parameter; known are {', '.join(DEFAULTS)}")
    p = {**DEFAULTS, **params}
    p["hkv"] = p["h"] if p["hkv"] is None else p["hkv"]
    for key in ("b", "h", "hkv", "sk", "new", "splits", "max_ctas"):
        if not isinstance(p[key], int) or p[key] < 0 or (key == "new" and p[key] > p["sk"]):
            raise ValueError(f"{key}: must be a whole number, zero or more, and new at most sk; is {p[key]!r}")
    for key, choices in {**CHOICES, "lengths": tuple(LENGTHS), "input": INPUTS}.items():
        if p[key] not in choices:
            raise ValueError(f"{key}: must be one of {', '.join(map(str, choices))}, is {p[key]!r}")
    if p["flash"] and (p["deterministic"] or p["max_ctas"]):
        raise ValueError("flash: has no argument for deterministic or max_ctas")
    if not p["hkv"] or p["h"] % p["hkv"]:
        raise ValueError(f"hkv: must divide h = {p['h']}, is {p['hkv']}")
    return p
