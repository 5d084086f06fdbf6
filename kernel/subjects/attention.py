"""Subject: FlashCore's attention forward.

Parameters: ``dtype`` (fp16, bf16), ``b``, ``h``, ``hkv`` (default h), ``sq``, ``sk`` (default sq), ``d``, ``causal``, ``layout``,
``max_ctas``, and

- ``input``: see draws.py. ``scale``: of the inputs. ``lengths``: see varlen.py
- ``page``: keys of a page, or 0. With pages ``strided`` means one tensor of keys and values, heads first
- ``strided``: views whose gaps hold NaN. ``offset``: the last batch starts past 2^31 elements
- ``flash``: call FlashAttention-3's function instead of the binding
- ``left``, ``right``: window, negative: unlimited. ``chunk``, ``softcap``: 0 for none. ``sinks``: "", fp32 or bf16
- ``counted``: the number of loaded key tiles is an output. Only with a limit and equal lengths
- ``used``, ``leftpad``: see varlen.py
"""

from __future__ import annotations

import itertools
import math
import pathlib
import tomllib
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]


def _load_neighbour(name: str) -> ModuleType:
    module = ModuleType(f"flashcore_subjects_{name}")
    SourceFileLoader(module.__name__, str(KERNEL / f"subjects/{name}.py")).exec_module(module)
    return module


draws, varlen, local, package = (_load_neighbour(name) for name in ("draws", "varlen", "local", "package"))
ELEMENT_BYTES = 2
LSE_BYTES = 4
DEVICE = "cuda"
GAP = 8  # elements: 16 bytes, so that a view with gaps stays aligned
FAR = 2**31 + 64  # elements between two batches of an `offset` workload
CHUNK_BYTES = 2**30  # of scores that the reference computes at once
DEFAULTS: dict[str, Any] = {
    "dtype": "fp16",
    **dict.fromkeys(("b", "h", "hkv", "sq", "sk", "d")),
    "causal": False,
    "layout": "bshd",
    "input": "normal",
    "scale": 1.0,
    "strided": False,
    "offset": False,
    "max_ctas": 0,
    "lengths": "equal",
    "page": 0,
    "flash": False,
    **local.LIMITS,
    "sinks": "",
    "counted": False,
    "used": False,
    "leftpad": False,
}
TILES = (64, 128, 256)  # head dimensions of the entry functions. The next larger one serves those between.
CHOICES = {"dtype": ("fp16", "bf16"), "d": range(8, 264, 8), "layout": ("bshd", "bhsd"), "lengths": tuple(varlen.LENGTHS)}


def build(root: pathlib.Path) -> dict[str, Any]:
    """Read the build and its limits from kernel/variants.toml."""
    variants = tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8"))
    table, groups = variants["attention"], (variants["attention"], variants["attention_local"], variants["varlen"])
    entries = [{**group["tiles"][entry["tile"]], **entry} for group in groups for entry in group["entries"]]
    return {
        **{key: table[key] for key in ("library", "launchers", "includes", "binding")},
        "entries": [
            {
                "symbol": entry["symbol"],
                "source": f"kernel/instantiations/{entry['symbol']}.cu",
                **{key: entry.get(key) for key in ("max_registers", "requires", "max_waits_per_hgmma", "dynamic_shared_bytes")},
                "loads_bulk_copies": entry.get("query_in_registers", False),
            }
            for entry in entries
        ],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work of one workload."""
    p = _complete(params)
    tile = next(tile for tile in TILES if tile >= p["d"])
    lengths = varlen.LENGTHS[p["lengths"]](p)
    served = varlen.drop_unused(p, lengths)
    queries, keys = (sum(column) for column in zip(*served, strict=True)) if served else (0, 0)
    pairs = sum(_count_visible_pairs(sq, sk, p) for sq, sk in served)
    elements = p["h"] * queries * p["d"] + p["hkv"] * keys * p["d"]
    shape = f"{'paged_' if varlen.is_paged(p, lengths, is_local=local.needs_local(p)) else ''}d{tile}_{p['dtype']}"
    entry = f"flashcore_attention_fwd_{shape}_{'causal' if p['causal'] else 'full'}"
    if local.needs_local(p):
        entry = f"flashcore_attention_{'cap' if p['softcap'] else 'local'}_{shape}"
    entries = [entry] if p["lengths"] == "equal" else [varlen.ENTRY, entry]
    return {
        "flops": 4.0 * p["h"] * p["d"] * pairs,
        "bytes": float(2 * ELEMENT_BYTES * elements + LSE_BYTES * p["h"] * queries),
        "entries": entries if queries and p["h"] else [],
    }


def load(library: pathlib.Path) -> None:
    """Use this library."""
    package.load(KERNEL, library)


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw tensors on the current CUDA device, and add the options."""
    import torch

    p = _complete(params)
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    q, k, v = draws.INPUTS[p["input"]](varlen.packed(p), generator)
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[p["dtype"]]
    tensors = {name: _place(tensor.to(dtype), p) for name, tensor in (("q", q), ("k", k), ("v", v))}
    inputs = {**tensors, **{key: p[key] for key in ("causal", "layout", "offset", "max_ctas", "flash", "counted", *local.LIMITS)}}
    inputs |= local.draw_sinks(p, generator)
    return inputs if p["lengths"] == "equal" else varlen.inputs(p, inputs)


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``out`` like the query and ``lse`` (batch, heads, queries)."""
    import torch

    if varlen.CUMULATIVE in inputs:
        outputs: dict[str, Any] = varlen.outputs(inputs)
        return outputs
    q = inputs["q"]
    b, h, sq, _ = _bhsd(q, inputs["layout"]).shape
    out = torch.empty_strided(q.shape, q.stride(), dtype=q.dtype, device=q.device) if inputs["offset"] else None
    return {
        "out": torch.empty(q.shape, dtype=q.dtype, device=q.device) if out is None else out,
        "lse": torch.empty((b, h, sq), dtype=torch.float32, device=q.device),
        **({"tiles": torch.empty(1, dtype=torch.float32, device=q.device)} if inputs["counted"] else {}),
    }


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once on the current stream."""
    import flashcore
    import torch

    if varlen.CUMULATIVE in inputs:
        varlen.run(inputs, outputs, local.options(inputs), local.flash_options(inputs))
        return
    if inputs["flash"]:
        results = flashcore.flash_attn_func(
            inputs["q"], inputs["k"], inputs["v"], causal=inputs["causal"], return_attn_probs=True, **local.flash_options(inputs)
        )
        for name, result in zip(("out", "lse"), results, strict=True):
            outputs[name].copy_(result)
        return
    loaded = torch.zeros(1, dtype=torch.int32, device=DEVICE) if inputs["counted"] else None
    flashcore.attention(
        inputs["q"], inputs["k"], inputs["v"], causal=inputs["causal"], layout=inputs["layout"], out=outputs["out"], lse=outputs["lse"],
        max_ctas=inputs["max_ctas"], loaded_tiles=loaded, **local.options(inputs),
    )  # fmt: skip
    if loaded is not None:
        outputs["tiles"].copy_(loaded)


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute 16-bit inputs with PyTorch, and float64 inputs with the formula.

    Rows that see no key are 0 and -inf (PyTorch gives NaN).
    """
    import torch

    if varlen.CUMULATIVE in inputs:
        results: dict[str, Any] = varlen.reference(inputs, reference)
        return results
    layout, causal = inputs["layout"], inputs["causal"]
    q, k, v = (_bhsd(inputs[name], layout) for name in ("q", "k", "v"))
    group = q.shape[1] // k.shape[1]
    k, v = (tensor.repeat_interleave(group, dim=1) if group > 1 else tensor for tensor in (k, v))
    if local.is_limited(inputs):
        out, lse = local.compute(q, k, v, inputs, CHUNK_BYTES)
        counted = {"tiles": local.count_tiles(q, k, inputs).to(lse.dtype)} if inputs["counted"] else {}
        return {"out": out if layout == "bhsd" else out.transpose(1, 2), "lse": lse, **counted}
    if q.dtype == torch.float64 or not q.numel() or not k.shape[2]:
        out, lse = _formula(q, k, v, causal=causal)
    else:
        out, lse = _sdpa(q, k, v, causal=causal), _flash_lse(q, k, v, causal=causal)
    hidden = max(0, q.shape[2] - k.shape[2]) if causal else 0
    if hidden or not k.shape[2]:
        rows = slice(0, hidden) if k.shape[2] else slice(None)
        out[:, :, rows], lse[:, :, rows] = 0.0, -math.inf
    return {"out": out if layout == "bhsd" else out.transpose(1, 2), "lse": lse}


def _sdpa(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """Compute attention. If causal with sq != sk, by the operator of PyTorch's own mask, whose module imports the compiler."""
    import torch

    if causal and q.shape[2] != k.shape[2]:
        if torch.backends.cuda.can_use_flash_attention(torch.backends.cuda.SDPAParams(q, k, v, None, 0.0, False, False)):
            return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[0]  # noqa: SLF001
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(k.shape[2] - q.shape[2])
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _flash_lse(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """Return the log-sum-exp of PyTorch's flash backend, float32 (b, h, sq).

    Its causal mask equals FlashCore's only where sq = sk. So rows are added before the first, or masked rows dropped.
    """
    import torch

    sq, sk = q.shape[2], k.shape[2]
    if causal and sq != sk:
        square = q.new_zeros((*q.shape[:2], sk, q.shape[3]))
        shared = min(sq, sk)
        square[:, :, sk - shared :] = q[:, :, sq - shared :]
        lse = torch.full((*q.shape[:2], sq), -math.inf, dtype=torch.float32, device=q.device)
        lse[:, :, sq - shared :] = _flash_lse(square, k, v, causal=True)[:, :, sk - shared :]
        return lse
    q, k, v = (tensor.contiguous() for tensor in (q, k, v))
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[1][:, :, :sq]  # noqa: SLF001 - the only function that returns the LSE


def _formula(q: Any, k: Any, v: Any, *, causal: bool) -> tuple[Any, Any]:
    """Compute softmax(q k^T / sqrt(d)) v and its log-sum-exp, in chunks of query rows."""
    import torch

    b, h, sq, d = q.shape
    sk = k.shape[2]
    out = torch.zeros((b, h, sq, d), dtype=q.dtype, device=q.device)
    lse = torch.full((b, h, sq), -math.inf, dtype=torch.promote_types(q.dtype, torch.float32), device=q.device)
    rows = max(1, CHUNK_BYTES // max(1, sk * q.dtype.itemsize))
    for batch, head, start in itertools.product(range(b), range(h), range(0, sq if sk else 0, rows)):
        part = slice(start, min(sq, start + rows))
        scores = q[batch, head, part] @ k[batch, head].T * (1.0 / math.sqrt(d))
        if causal:
            row = torch.arange(part.start, part.stop, device=q.device)[:, None] + (sk - sq)
            scores.masked_fill_(torch.arange(sk, device=q.device) > row, -math.inf)
        lse[batch, head, part] = torch.logsumexp(scores, dim=-1)
        out[batch, head, part] = torch.softmax(scores, dim=-1) @ v[batch, head]
    return out, lse


def _place(tensor: Any, p: Mapping[str, Any]) -> Any:
    """Put a (b, s, h, d) tensor into the workload's layout and memory."""
    import torch

    shaped = tensor if p["layout"] == "bshd" else tensor.transpose(1, 2)
    if not p["strided"] and not p["offset"]:
        return shaped.contiguous()
    row = p["d"] + (GAP if p["strided"] else 0)
    inner, middle = row, row * (shaped.shape[2] + (1 if p["strided"] else 0))
    outer = FAR if p["offset"] else middle * (shaped.shape[1] + 1)
    extent = max(1, outer * (shaped.shape[0] - 1) + middle * shaped.shape[1] + row)
    memory = torch.full((extent,), math.nan, dtype=tensor.dtype, device=tensor.device)
    view = memory.as_strided(shaped.shape, (outer, middle, inner, 1))
    view.copy_(shaped)
    return view


def _bhsd(tensor: Any, layout: str) -> Any:
    return tensor if layout == "bhsd" else tensor.transpose(1, 2)


def _count_visible_pairs(sq: int, sk: int, p: Mapping[str, Any]) -> int:
    """Count the (query, key) pairs that are not masked. The last query sees every key."""
    if any(p[name] != DEFAULTS[name] for name in ("left", "right", "chunk")):
        return sum(last - first for first, last in (local.see(row + sk - sq, sk, p) for row in range(sq)))
    if not p["causal"]:
        return sq * sk
    rows = min(sq, sk)  # that see a key
    return rows * (rows + 1) // 2 + (sk - rows) * rows


def _complete(params: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(params) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"{unknown[0]}: unknown parameter. Choose from {', '.join(DEFAULTS)}")
    p = {**DEFAULTS, **params}
    p["hkv"] = p["h"] if p["hkv"] is None else p["hkv"]
    p["sk"] = p["sq"] if p["sk"] is None else p["sk"]
    for key in ("b", "h", "hkv", "sq", "sk", "d", "max_ctas", "page"):
        if not isinstance(p[key], int) or p[key] < 0:
            raise ValueError(f"{key}: must be a whole number, zero or more, is {p[key]!r}")
    for key, choices in {**CHOICES, "input": tuple(draws.INPUTS)}.items():
        if p[key] not in choices:
            raise ValueError(f"{key}: must be one of {', '.join(map(str, choices))}, is {p[key]!r}")
    varlen.check(p, TILES)
    local.check(p)
    if p["counted"] and (not local.needs_local(p) or p["lengths"] != "equal" or p["flash"]):
        raise ValueError(f"counted: needs a limit, equal lengths and flash false, lengths are {p['lengths']}")
    if p["flash"] and (p["layout"] != "bshd" or p["max_ctas"]):
        raise ValueError(f"flash: needs layout bshd and max_ctas 0, is {p['layout']} and {p['max_ctas']}")
    if not p["hkv"] or p["h"] % p["hkv"]:
        raise ValueError(f"hkv: must divide h = {p['h']}, is {p['hkv']}")
    return p
