"""Subject: FlashCore's decode.

Parameters: ``dtype`` of the queries (fp16, bf16, over E4M3 caches e4m3), ``b``, ``h``, ``hkv`` (default h), ``sq`` (default 1), ``sk`` (keys of the longest sequence), ``d``,
``causal`` (default true), ``splits``, ``deterministic``, ``max_ctas``, ``input``, ``lengths`` (see sequences.py), and

- ``page``: keys of a page (0: a contiguous cache). ``new``: how many of the keys the call appends
- ``flash``: call FlashAttention-3's function instead of the binding
- ``vary``: the launches differ, and must have the same bits: ctas or batch (launches.py). ``counted``: loaded key tiles are an output
- ``packed``: packed queries (sequences.py), of which the launch serves the sequences of 1 to so many. ``sq`` is that of one left out
- ``used``: packed sequences have unused rows. ``rotary``, ``index``, ``leftpad``: see caches.py
- ``left``, ``right``, ``chunk``, ``softcap``, ``sinks``: as in attention.py. ``cache``: e4m3 for caches of E4M3. Their scales are powers of two, so that 16 bits hold the values
- ``scales``: of each token or page of such caches. Otherwise those of each (sequence, KV head)

Unused cache rows are NaN, also those that the call fills. Pages are shuffled, and table entries after a sequence's last page are
garbage. The seed changes values only. E4M3 tensors are inputs as bytes.

A launch that appends writes to a copy of the cache. The whole copy is an output, with MARK in place of NaN, which shows missing and
extra rows. Such workloads are not timed.
"""

from __future__ import annotations

import math
import pathlib
import tomllib
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]
FILES = ("draws", "formulas", "fp8", "sequences", "caches", "local", "launches", "package")


def _load_neighbour(name: str) -> ModuleType:
    module = ModuleType(f"flashcore_subjects_{name}")
    SourceFileLoader(module.__name__, str(KERNEL / f"subjects/{name}.py")).exec_module(module)
    return module


draws, formulas, fp8, sequences, caches, local, launches, package = (_load_neighbour(name) for name in FILES)
ELEMENT_BYTES, LSE_BYTES, MARK, MAX_PAGE = 2, 4, 77.0, 1024
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
    **dict.fromkeys(("cache", "scales"), ""),
    "packed": 0,
    "vary": "",
    "counted": False,
    **local.LIMITS,
    "sinks": "",
    "used": False,
    "rotary": "",
    "index": False,
    "leftpad": False,
}
DEVICE = "cuda"
INPUTS = ("normal", "large", "rising", "falling", "constant")  # of draws.py
OPTIONS = ("causal", "splits", "deterministic", "max_ctas")
CHOICES = {
    "dtype": ("fp16", "bf16", "e4m3"),
    "cache": ("", "e4m3"),
    "scales": ("", "token", "page"),
    "d": sequences.HEAD_DIMS,
    "page": range(MAX_PAGE + 1),
    "sq": range(1, sequences.MAX_DRAWN + 1),
    "packed": range(17),
    "vary": launches.WAYS,
}


def build(root: pathlib.Path) -> dict[str, Any]:
    """Read the build and its limits from kernel/variants.toml."""
    table = tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8"))
    groups = [group for name, group in table.items() if name.startswith("decode")]
    entries = [{**group["tiles"][entry["tile"]], **entry} for group in groups for entry in group["entries"]]
    return {
        **{key: table["decode"][key] for key in ("library", "launchers", "includes", "binding")},
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
    """Count the work of one workload. Each visible key and value counts once."""
    p = _complete(params)
    counts = _count_keys(p)
    visible = [count - padding for count, padding in zip(counts, caches.count_padding(p, counts), strict=True)]
    served = [pair for pair in zip(visible, sequences.count_queries(p), strict=True) if sequences.is_served(p, pair[1])]
    totals = [keys - local.see(keys - sq, keys, p)[0] for keys, sq in served]
    pairs = sum(last - first for n, sq in served for first, last in (local.see(n - sq + i, n, p) for i in range(sq)))
    rows = p["h"] * sum(sq for _, sq in served)
    query, cache = (1 if kind == "e4m3" else ELEMENT_BYTES for kind in (p["dtype"], p["cache"]))
    moved = cache * sum(totals) + p["b"] * p["new"] * (ELEMENT_BYTES if p["cache"] else cache)
    return {
        "flops": 4.0 * p["h"] * p["d"] * pairs,
        "bytes": float(
            rows * (p["d"] * (query + ELEMENT_BYTES) + LSE_BYTES)
            + 2 * p["hkv"] * (p["d"] * moved + fp8.count_scale_bytes(p, totals))
        ),
        "entries": [sequences.name_entry({**p, "page": caches.get_page(p)}, is_local=local.needs_local(p))] if rows else [],
    }


def load(library: pathlib.Path) -> None:
    """Use this library."""
    package.load(KERNEL, library)


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw tensors on the current CUDA device, and add the options."""
    import torch

    p = _complete(params)
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    dtype = torch.float16 if p["dtype"] == "fp16" else torch.bfloat16
    counts = _count_keys(p)
    capacity = -(-p["sk"] // p["page"]) * p["page"] if p["page"] else p["sk"]
    values = {**p, "sk": capacity, "scale": 1.0, "draws": dtype}
    q, k, v = (tensor.to(dtype) for tensor in draws.INPUTS[p["input"]](values, generator))
    before = torch.tensor(counts, device=DEVICE) - p["new"]
    new = {f"{name}_new": formulas.gather_rows(tensor, before, p["new"]) for name, tensor in (("k", k), ("v", v)) if p["new"]}
    scales = {}
    if p["cache"]:
        scales = {f"{name}_scale": fp8.make_cache_scale(p, step, before + p["new"]) for step, name in enumerate("kv", start=1)}
        k, v = (fp8.quantise(tensor, fp8.spread(scales[f"{name}_scale"], p)) for name, tensor in (("k", k), ("v", v)))
    if p["dtype"] == "e4m3":
        scales["q_scale"] = fp8.make_scale(p, 0)
        q = fp8.quantise(q, scales["q_scale"].repeat_interleave(p["h"] // p["hkv"], dim=1)[:, None])
    used = caches.mask_used(p, [count - p["new"] for count in counts], k.shape[1])
    if not used.all():
        for cache in (k, v):
            cache.masked_fill_(~used.to(DEVICE)[:, :, None, None], fp8.get_nan(cache))
    table = caches.make_table(p, counts).to(DEVICE) if p["page"] else None
    if table is not None:
        k, v = (caches.to_pages(cache, table, p, counts, fp8.get_nan(cache)) for cache in (k, v))
        for name in ("k_scale", "v_scale") if p["scales"] else ():
            scales[name] = fp8.select_pages(caches.to_pages(scales[name], table, p, counts, math.nan), p)
    options = {**{key: p[key] for key in (*OPTIONS, "flash", "vary", "counted", *local.LIMITS)}, **local.draw_sinks(p, generator)}
    options |= caches.draw(p, counts, generator, dtype)
    return {**sequences.pack(q, p), "k": k, "v": v, "lengths": before.int(), "page_table": table, **new, **scales, **options}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``out`` like the query, ``lse`` (batch, heads, queries), and the caches if the call appends."""
    import torch

    q = inputs["q"]
    lse = torch.empty(sequences.shape_of_lse(inputs), dtype=torch.float32, device=q.device)
    written = {
        name: torch.empty_like(inputs[name], dtype=torch.float32 if fp8.is_fp8(inputs[name]) else None)
        for name in ("k", "v")
        if f"{name}_new" in inputs
    }
    written |= {"tiles": lse.new_empty(1)} if inputs.get("counted") else {}
    return {"out": torch.empty_like(q, dtype=torch.bfloat16 if fp8.is_fp8(q) else None), "lse": lse, **written}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once on the current stream, or as ``vary`` says."""
    launches.run(_run, inputs, outputs)


def _run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    import flashcore
    import torch

    k, v = (inputs[name].clone() if f"{name}_new" in inputs else inputs[name] for name in ("k", "v"))
    q, new, table = inputs["q"], [inputs.get(f"{name}_new") for name in ("k", "v")], inputs["page_table"]
    scales = {name: inputs.get(f"{name}_scale") for name in "qkv"}
    if "starts" in inputs:
        sequences.run(inputs, outputs, local.options(inputs))
    elif inputs["flash"]:
        results = flashcore.flash_attn_with_kvcache(
            *(tensor.view(torch.float8_e4m3fn) if fp8.is_fp8(tensor) else tensor for tensor in (q, k, v)), *new,
            **{f"{name}_descale": scale for name, scale in scales.items()}, cache_seqlens=inputs["lengths"], page_table=table, causal=inputs["causal"], num_splits=inputs["splits"],
            return_softmax_lse=True, **local.flash_options(inputs), **caches.get_arguments(inputs),
        )  # fmt: skip
        for name, result in zip(("out", "lse"), results, strict=True):
            outputs[name].copy_(result)
    else:
        loaded = torch.zeros(1, dtype=torch.int32, device=DEVICE) if inputs.get("counted") else None
        flashcore.decode(
            q, k, v, lengths=inputs["lengths"], page_table=table, k_new=new[0], v_new=new[1], out=outputs["out"], lse=outputs["lse"],
            **{name: inputs[name] for name in OPTIONS}, **{f"{name}_scale": scale for name, scale in scales.items()},
            **local.options(inputs), loaded_tiles=loaded,
        )  # fmt: skip
        if loaded is not None:
            outputs["tiles"].copy_(loaded)
    for name in outputs.keys() & {"k", "v"}:
        outputs[name].copy_(fp8.to_float({"k": k, "v": v}[name]).nan_to_num(MARK))


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute 16-bit inputs with PyTorch, and float64 inputs with the formula.

    Rows that see no key are 0 and -inf (PyTorch gives NaN).
    """
    import torch

    q = inputs["q"]
    exact = torch.float64 in {q.dtype, getattr(inputs.get("k_scale"), "dtype", None)}
    dtype = torch.float64 if exact else torch.bfloat16 if fp8.is_fp8(q) else q.dtype
    out = torch.zeros_like(q, dtype=dtype)
    lse = torch.full(sequences.shape_of_lse(inputs), -math.inf, dtype=torch.float64 if exact else torch.float32, device=q.device)
    stored = {name: inputs[name].clone() if f"{name}_new" in inputs else inputs[name] for name in ("k", "v")}
    lengths = inputs["lengths"].tolist()
    for i, queries, rows_of_out, rows_of_lse in sequences.split(inputs, out, lse):
        sq, turned = len(queries), caches.turn(queries, inputs, lengths[i], counts_up=inputs["causal"])
        query = fp8.dequantise(turned, fp8.find_scale(inputs, "q", i), dtype)
        new = ((name, _make_new_rows(inputs, name, i, lengths[i])) for name in ("k", "v"))
        k, v = (caches.append(inputs, stored[name], i, lengths[i], rows) for name, rows in new)
        k, v = (fp8.dequantise(rows, fp8.find_scale(inputs, name, i), dtype) for name, rows in (("k", k), ("v", v)))
        if local.is_limited(inputs):
            rows_of_out[:], rows_of_lse[:] = local.compute_rows(query, k, v, inputs)
            continue
        groups = [slice(row, row + 1) for row in range(sq)] if inputs["causal"] else [slice(0, sq)]
        for rows in groups:  # rows of a group see the same keys
            visible = len(k) - (sq - rows.stop)
            if visible > 0:
                attend = formulas.formula if exact else formulas.pytorch
                rows_of_out[rows], rows_of_lse[:, rows] = attend(query[rows], k[:visible], v[:visible])
    appended = {name: fp8.to_float(stored[name]).nan_to_num(MARK) for name in stored if f"{name}_new" in inputs}
    appended |= {"tiles": sequences.count_tiles(inputs).to(lse.dtype)} if inputs.get("counted") else {}
    return {"out": out, "lse": lse, **appended}


def _make_new_rows(inputs: Mapping[str, Any], name: str, sequence: int, before: int) -> Any:
    """Return the new rows of one sequence as its cache stores them, or None."""
    rows = inputs[f"{name}_new"][sequence] if f"{name}_new" in inputs else None
    if rows is None:
        return None
    rows = caches.turn(rows, inputs, before) if name == "k" else rows
    return fp8.quantise(rows, fp8.find_scale(inputs, name, sequence)[-len(rows) :].float()) if fp8.is_fp8(inputs[name]) else rows


def _count_keys(p: Mapping[str, Any]) -> list[int]:
    return [max(n, p["new"]) for n in sequences.LENGTHS[p["lengths"]](p["b"], p["sk"])]


def _complete(params: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(params) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"{unknown[0]}: unknown parameter. Choose from {', '.join(DEFAULTS)}")
    p = {**DEFAULTS, **params}
    p["hkv"] = p["h"] if p["hkv"] is None else p["hkv"]
    for key in ("b", "h", "hkv", "sk", "new", "splits", "max_ctas"):
        if not isinstance(p[key], int) or p[key] < 0 or (key == "new" and p[key] > p["sk"]):
            raise ValueError(f"{key}: must be a whole number, zero or more (new at most sk), is {p[key]!r}")
    for key, choices in {**CHOICES, "lengths": tuple(sequences.LENGTHS), "input": INPUTS}.items():
        if p[key] not in choices:
            raise ValueError(f"{key}: must be one of {', '.join(map(str, choices))}, is {p[key]!r}")
    if p["flash"] and (p["deterministic"] or p["max_ctas"]):
        raise ValueError(f"flash: needs deterministic false and max_ctas 0, is {p['deterministic']} and {p['max_ctas']}")
    sequences.check(p)
    caches.check(p)
    local.check(p)
    sequences.check_counted(p)
    if sequences.is_gathered(p) and not (p["packed"] or p["flash"]):
        raise ValueError(f"page: must be 0 or a power of two from 16 on, unless queries are packed, is {p['page']}")
    if not p["hkv"] or p["h"] % p["hkv"]:
        raise ValueError(f"hkv: must divide h = {p['h']}, is {p['hkv']}")
    return p
