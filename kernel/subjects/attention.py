"""Subject: FlashCore's attention forward.

Parameters of a workload: ``dtype`` (fp16, bf16), ``b``, ``h``, ``hkv`` (default h), ``sq``, ``sk`` (default sq), ``d``,
``causal``, ``layout`` (bshd, bhsd), ``input`` (see INPUTS), ``scale`` (of the inputs), ``strided`` (views whose gaps hold
NaN), ``offset`` (the last batch lies past 2^31 elements), ``max_ctas`` (0: all multiprocessors).
"""

from __future__ import annotations

import math
import pathlib
import sys
import tomllib
from collections.abc import Mapping
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]
ELEMENT_BYTES = 2
LSE_BYTES = 4
GAP = 8  # elements: 16 bytes, so that a view with gaps stays aligned
FAR = 2**31 + 64  # elements between two batches of an offset workload
CHUNK_BYTES = 2**30  # of scores that the reference holds at once
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
}
TILES = (64, 128, 256)  # head dimensions of the entry functions; the next larger one serves what lies between
CHOICES = {"dtype": ("fp16", "bf16"), "d": range(8, 264, 8), "layout": ("bshd", "bhsd")}


def build(root: pathlib.Path) -> dict[str, Any]:
    """How the kernel is built and what its machine code must look like, from kernel/variants.toml."""
    table = tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8"))["attention"]
    entries = [{**table["tiles"][entry["tile"]], **entry} for entry in table["entries"]]
    return {
        **{key: table[key] for key in ("library", "launchers", "includes", "binding")},
        "entries": [
            {
                "symbol": entry["symbol"],
                "source": f"kernel/instantiations/{entry['symbol']}.cu",
                **{key: entry[key] for key in ("max_registers", "requires", "max_waits_per_hgmma", "dynamic_shared_bytes")},
                "loads_bulk_copies": entry["query_in_registers"],
            }
            for entry in entries
        ],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Operations, bytes and entry functions of one workload."""
    p = _complete(params)
    mask = "causal" if p["causal"] else "full"
    tile = next(tile for tile in TILES if tile >= p["d"])
    pairs = _visible_pairs(p["sq"], p["sk"], causal=p["causal"])
    query_elements = p["b"] * p["h"] * p["sq"] * p["d"]
    key_elements = p["b"] * p["hkv"] * p["sk"] * p["d"]
    return {
        "flops": 4.0 * p["b"] * p["h"] * p["d"] * pairs,
        "bytes": float(2 * ELEMENT_BYTES * (query_elements + key_elements) + LSE_BYTES * p["b"] * p["h"] * p["sq"]),
        "entries": [f"flashcore_attention_fwd_d{tile}_{p['dtype']}_{mask}"] if query_elements else [],
    }


def load(library: pathlib.Path) -> None:
    """Use this library for every later run."""
    if str(KERNEL) not in sys.path:
        sys.path.insert(0, str(KERNEL))
    import flashcore

    flashcore.load(library)


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Query, key and value tensors on the current CUDA device, and the scalars."""
    import torch

    p = _complete(params)
    generator = torch.Generator(device="cuda").manual_seed(seed)
    q, k, v = INPUTS[p["input"]](p, generator)
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[p["dtype"]]
    placed = {name: _place(tensor.to(dtype), p) for name, tensor in (("q", q), ("k", k), ("v", v))}
    return {**placed, **{key: p[key] for key in ("causal", "layout", "offset", "max_ctas")}}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Uninitialised results: ``out`` like the query, ``lse`` of shape (batch, heads, queries)."""
    import torch

    q = inputs["q"]
    b, h, sq, _ = _bhsd(q, inputs["layout"]).shape
    out = torch.empty_strided(q.shape, q.stride(), dtype=q.dtype, device=q.device) if inputs["offset"] else None
    return {
        "out": torch.empty(q.shape, dtype=q.dtype, device=q.device) if out is None else out,
        "lse": torch.empty((b, h, sq), dtype=torch.float32, device=q.device),
    }


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """One launch on the current stream."""
    import flashcore

    flashcore.attention(
        inputs["q"], inputs["k"], inputs["v"], causal=inputs["causal"], layout=inputs["layout"], out=outputs["out"], lse=outputs["lse"],
        max_ctas=inputs["max_ctas"],
    )  # fmt: skip


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """PyTorch's own results for 16-bit inputs, the formula itself for float64 ones.

    The output is that of scaled_dot_product_attention, the log-sum-exp that of its flash backend. Rows that may see no key
    are 0 and -inf here (PyTorch gives NaN).
    """
    import torch

    layout, causal = inputs["layout"], inputs["causal"]
    q, k, v = (_bhsd(inputs[name], layout) for name in ("q", "k", "v"))
    group = q.shape[1] // k.shape[1]
    k, v = (tensor.repeat_interleave(group, dim=1) if group > 1 else tensor for tensor in (k, v))
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
    import torch
    from torch.nn.attention.bias import causal_lower_right

    if causal and q.shape[2] != k.shape[2]:
        mask = causal_lower_right(q.shape[2], k.shape[2])
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _flash_lse(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    """The log-sum-exp of PyTorch's flash backend, float32, shape (b, h, sq).

    Its causal mask is only the same as ours where sq = sk: rows are added before the first, or hidden rows left away.
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
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)[1][:, :, :sq]  # noqa: SLF001 - only it gives the LSE


def _formula(q: Any, k: Any, v: Any, *, causal: bool) -> tuple[Any, Any]:
    """softmax(q k^T / sqrt(d)) v and its log-sum-exp, a chunk of query rows at a time."""
    import torch

    b, h, sq, d = q.shape
    sk = k.shape[2]
    out = torch.zeros((b, h, sq, d), dtype=q.dtype, device=q.device)
    lse = torch.full((b, h, sq), -math.inf, dtype=torch.promote_types(q.dtype, torch.float32), device=q.device)
    rows = max(1, CHUNK_BYTES // max(1, sk * q.dtype.itemsize))
    for batch, head, start in ((i, j, s) for i in range(b) for j in range(h) for s in range(0, sq if sk else 0, rows)):
        part = slice(start, min(sq, start + rows))
        scores = q[batch, head, part] @ k[batch, head].T * (1.0 / math.sqrt(d))
        if causal:
            row = torch.arange(part.start, part.stop, device=q.device)[:, None] + (sk - sq)
            scores.masked_fill_(torch.arange(sk, device=q.device) > row, -math.inf)
        lse[batch, head, part] = torch.logsumexp(scores, dim=-1)
        out[batch, head, part] = torch.softmax(scores, dim=-1) @ v[batch, head]
    return out, lse


def _normal(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Independent normal numbers of standard deviation ``scale``."""
    import torch

    def draw(sequence: int, heads: int) -> Any:
        shape = (p["b"], sequence, heads, p["d"])
        return torch.randn(shape, device="cuda", generator=generator).mul_(p["scale"])

    return draw(p["sq"], p["h"]), draw(p["sk"], p["hkv"]), draw(p["sk"], p["hkv"])


def _large(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Logits of standard deviation 64: the softmax is close to a maximum."""
    q, k, v = _normal(p, generator)
    return q * 8.0, k * 8.0, v


def _ramp(p: Mapping[str, Any], generator: Any, start: float, end: float) -> tuple[Any, Any, Any]:
    import torch

    q, k, v = _normal(p, generator)
    slope = torch.linspace(start, end, max(1, p["sk"]), device="cuda")[: p["sk"], None, None]
    return q.abs(), k * 0.1 + slope, v


def _rising(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Scores that rise along the keys: every tile of a left-to-right loop brings a new maximum."""
    return _ramp(p, generator, 0.0, 8.0)


def _falling(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Scores that fall along the keys: the same for a right-to-left loop."""
    return _ramp(p, generator, 8.0, 0.0)


def _constant(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """All scores equal: the result is the mean of the visible values."""
    import torch

    q, k, v = _normal(p, generator)
    return torch.full_like(q, 0.5), torch.full_like(k, 0.5), v


def _onehot(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Query i meets the keys whose position equals i modulo d, and hardly any other."""
    import torch

    q, k, v = _normal(p, generator)
    eye = torch.eye(p["d"], device="cuda") * 16.0
    q_rows, k_rows = (eye[torch.arange(n, device="cuda") % p["d"]][:, None, :] for n in (p["sq"], p["sk"]))
    return q_rows.expand_as(q), k_rows.expand_as(k), v


INPUTS = {
    "normal": _normal,
    "large": _large,
    "rising": _rising,
    "falling": _falling,
    "constant": _constant,
    "onehot": _onehot,
}


def _place(tensor: Any, p: Mapping[str, Any]) -> Any:
    """Put a (b, s, h, d) tensor into the layout and the memory that the workload asks for."""
    import torch

    shaped = tensor if p["layout"] == "bshd" else tensor.transpose(1, 2)
    if not p["strided"] and not p["offset"]:
        return shaped.contiguous()
    row = p["d"] + (GAP if p["strided"] else 0)
    inner, middle = row, row * (shaped.shape[2] + (1 if p["strided"] else 0))
    outer = FAR if p["offset"] else middle * (shaped.shape[1] + 1)
    extent = max(1, outer * (shaped.shape[0] - 1) + middle * shaped.shape[1] + row)
    memory = torch.full((extent,), math.nan, dtype=tensor.dtype, device="cuda")
    view = memory.as_strided(shaped.shape, (outer, middle, inner, 1))
    view.copy_(shaped)
    return view


def _bhsd(tensor: Any, layout: str) -> Any:
    return tensor if layout == "bhsd" else tensor.transpose(1, 2)


def _visible_pairs(sq: int, sk: int, *, causal: bool) -> int:
    """(query, key) pairs that the mask lets through; the last query sees every key."""
    if not causal:
        return sq * sk
    seen = min(sq, sk)
    return seen * (seen + 1) // 2 + (sk - seen) * seen


def _complete(params: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(params) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"{unknown[0]}: unknown parameter; known are {', '.join(DEFAULTS)}")
    p = {**DEFAULTS, **params}
    p["hkv"] = p["h"] if p["hkv"] is None else p["hkv"]
    p["sk"] = p["sq"] if p["sk"] is None else p["sk"]
    for key in ("b", "h", "hkv", "sq", "sk", "d", "max_ctas"):
        if not isinstance(p[key], int) or p[key] < 0:
            raise ValueError(f"{key}: must be a whole number, zero or more, is {p[key]!r}")
    for key, choices in {**CHOICES, "input": tuple(INPUTS)}.items():
        if p[key] not in choices:
            raise ValueError(f"{key}: must be one of {', '.join(map(str, choices))}, is {p[key]!r}")
    if not p["hkv"] or p["h"] % p["hkv"]:
        raise ValueError(f"hkv: must divide h = {p['h']}, is {p['hkv']}")
    return p
