"""Subject: FlashCore's attention forward in E4M3.

Parameters: ``b``, ``h``, ``hkv`` (default h), ``sq``, ``sk`` (default sq), ``d`` (64, 128 or 256, default 128), ``causal``, ``max_ctas``, ``input`` (draws.py, or ``ones``: values of 1
plus noise of 0.05, whose sums lose what the tensor cores cut off), ``values`` (e4m3, or fp16 or bf16, which the transposition rounds), ``blocks`` (a
scale for each block of rows), ``lengths`` (varlen.py. Unequal ones are packed).

Tensors are bytes. Their scales are powers of two. PyTorch's own result rounds its probabilities to E4M3 too, relative to the largest of
a row, and adds in float32. It is what two exact levels of accumulation would give. Its scores keep 12 bits, which gives about the error of
the tensor cores: they cut each of 32 products to 14 bits of the largest (docs/fp8.md).
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
    """Load a file of this folder, which kernel/variants.toml lists in ``binding``."""
    module = ModuleType(f"flashcore_subjects_{name}")
    SourceFileLoader(module.__name__, str(KERNEL / f"subjects/{name}.py")).exec_module(module)
    return module


draws, fp8, packed, varlen, package = (_load_neighbour(name) for name in ("draws", "fp8", "e4m3_packed", "varlen", "package"))
HEAD_DIMS = (64, 128, 256)
OUT_BYTES, LSE_BYTES = 2, 4
MMA_COLUMNS, SCORE_BITS = 32, 12
OFFSET = 8  # powers of two: the largest probability of a row is 256
CHUNK = 2**27  # scores that the reference computes at once
DEVICE = "cuda"
SOURCES = ("e4m3", "fp16", "bf16")
GROUPS = ("e4m3", "e4m3_block", "e4m3_transpose")
"""The tables of kernel/variants.toml that its library is built from."""
DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("b", "h", "hkv", "sq", "sk")),
    "d": 128,
    "causal": False,
    "max_ctas": 0,
    "input": "normal",
    "values": "e4m3",
    "blocks": False,
    "lengths": "equal",
}
ROWS = {"q": 64, "k": 128, "v": 128}
"""Rows of a block that has a scale of its own."""
INPUTS = ("normal", "large", "rising", "falling", "constant", "onehot", "ones")


def build(root: pathlib.Path) -> dict[str, Any]:
    """Read the build and its limits from kernel/variants.toml."""
    table = tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8"))
    groups = [table[name] for name in GROUPS]
    entries = [{**group["tiles"][entry["tile"]], **entry} for group in groups for entry in group["entries"]]
    return {
        **{key: table["e4m3"][key] for key in ("library", "launchers", "includes", "binding")},
        "entries": [
            {
                "symbol": entry["symbol"],
                "source": f"kernel/instantiations/{entry['symbol']}.cu",
                "max_waits_per_hgmma": None,
                **{key: entry[key] for key in ("max_registers", "requires", "dynamic_shared_bytes")},
            }
            for entry in entries
        ],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work of one workload. Transposing reads and writes the values once more."""
    p = _complete(params)
    lengths = varlen.LENGTHS[p["lengths"]](p)
    pairs = sum(_count_pairs(sq, sk, causal=p["causal"]) for sq, sk in lengths)
    keys = sum(sk for _, sk in lengths)
    entry = f"flashcore_e4m3_{'block' if p['blocks'] else 'fwd'}_d{p['d']}_{'causal' if p['causal'] else 'full'}"
    is_transposed = keys > 0 or p["lengths"] != "equal"  # the same kernel lays packed rows out
    return {
        "flops": 4.0 * p["d"] * p["h"] * pairs,
        "bytes": packed.count_bytes(p, lengths, OUT_BYTES, LSE_BYTES),
        "entries": ["flashcore_e4m3_transpose_values", entry] if is_transposed else [entry],
    }


def _count_pairs(sq: int, sk: int, *, causal: bool) -> int:
    rows = min(sq, sk)  # that see a key
    return rows * (rows + 1) // 2 + (sk - rows) * rows if causal else sq * sk


def load(library: pathlib.Path) -> None:
    """Use this library."""
    package.load(KERNEL, library)


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw tensors on the current CUDA device, and add the options."""
    import torch

    p = _complete(params)
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    kind = "normal" if p["input"] == "ones" else p["input"]
    q, k, v = draws.INPUTS[kind]({**varlen.packed(p), "scale": 1.0}, generator)
    if p["input"] == "ones":
        v = 1.0 + 0.05 * v
    make = make_block_scale if p["blocks"] else fp8.make_scale
    scales = {f"{name}_scale": make(p, step) for step, name in enumerate("qkv")}
    options = {key: p[key] for key in ("causal", "max_ctas")}
    if p["lengths"] != "equal":
        return {**packed.inputs(p, varlen.LENGTHS[p["lengths"]](p), (q, k, v), scales, fp8), **options}
    q, k = (fp8.quantise(x, spread(scales[f"{name}_scale"], x, ROWS[name])) for name, x in (("q", q), ("k", k)))
    source = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(p["values"])
    v = fp8.quantise(v, spread(scales["v_scale"], v, ROWS["v"])) if source is None else v.to(source)
    return {"q": q, "k": k, "v": v, **scales, **options}


def make_block_scale(p: Mapping[str, Any], step: int) -> Any:
    """Make scales of 1, 1/2 and 1/4, (batch, heads, blocks). Those of neighbours differ. Step 0 is that of queries."""
    import torch

    rows, heads, block = (p["sk"], p["hkv"], ROWS["k"]) if step else (p["sq"], p["h"], ROWS["q"])
    shape = (p["b"], heads, -(-rows // block))
    exponents = (torch.arange(math.prod(shape), device=DEVICE) + step) % 3
    return torch.exp2(-exponents.float()).view(shape)


def spread(scale: Any, tensor: Any, rows: int) -> Any:
    """Repeat scales (batch, heads) or (batch, heads, blocks of ``rows``) for each row and head of a tensor: (batch, rows, heads)."""
    _, length, heads, _ = tensor.shape
    scale = scale.repeat_interleave(heads // scale.shape[1], dim=1)
    blocks = scale[:, :, None] if scale.dim() == 2 else scale.repeat_interleave(rows, dim=2)[:, :, :length]  # noqa: PLR2004
    return blocks.transpose(1, 2).expand(-1, length, -1)


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``out`` in bfloat16 and ``lse`` (batch, heads, queries), packed (heads, queries)."""
    import torch

    *batch, sq, h, _ = inputs["q"].shape
    lse = torch.empty((*batch, h, sq), dtype=torch.float32, device=DEVICE)
    return {"out": torch.empty_like(inputs["q"], dtype=torch.bfloat16), "lse": lse}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once on the current stream."""
    import flashcore

    if "cu_seqlens_q" in inputs:
        packed.run(inputs, outputs)
        return
    q, k, v = (inputs[name] for name in "qkv")
    transposed = not fp8.is_fp8(v)
    if transposed:
        v = flashcore.transpose_values(v, inputs["v_scale"])
    flashcore.attention_e4m3(
        q, k, v, transposed=transposed, causal=inputs["causal"], max_ctas=inputs["max_ctas"],
        out=outputs["out"], lse=outputs["lse"], **{name: inputs[name] for name in ("q_scale", "k_scale", "v_scale")},
    )  # fmt: skip


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute float64 scales with the formula, else round the probabilities to E4M3. Rows that see no key are 0 and -inf."""
    import torch

    if "cu_seqlens_q" in inputs:
        return packed.reference(inputs, reference)
    q, k, v = (inputs[name] for name in "qkv")
    if not fp8.is_fp8(v):
        v = fp8.quantise(v, inputs["v_scale"].float()[:, None])
    factors = [spread(inputs[f"{name}_scale"], x, ROWS[name]) for name, x in (("q", q), ("k", k), ("v", v))]
    (b, sq, h, d), (sk, hkv) = q.shape, k.shape[1:3]
    exact = inputs["q_scale"].dtype == torch.float64
    dtype = torch.float64 if exact else torch.float32
    out = torch.zeros((b, sq, h, d), dtype=dtype, device=q.device)
    lse = torch.full((b, h, sq), -math.inf, dtype=dtype, device=q.device)
    rows = max(1, CHUNK // max(1, sk))
    for batch, head, start in itertools.product(range(b), range(h), range(0, sq if sk else 0, rows)):
        part, kv_head = slice(start, min(sq, start + rows)), head // (h // hkv)
        places = ((batch, part, head), (batch, slice(None), kv_head), (batch, slice(None), kv_head))
        query, keys, values = (
            fp8.to_float(tensor[at]).to(dtype) * factor[at][:, None].to(dtype)
            for tensor, factor, at in zip((q, k, v), factors, places, strict=True)
        )
        scores = (query @ keys.T if exact else _multiply(query, keys)) * (1.0 / math.sqrt(d))
        if inputs["causal"]:
            row = torch.arange(part.start, part.stop, device=q.device)[:, None] + (sk - sq)
            scores.masked_fill_(torch.arange(sk, device=q.device) > row, -math.inf)
        lse[batch, head, part] = torch.logsumexp(scores, dim=-1)
        p = torch.exp(scores - scores.amax(dim=-1, keepdim=True).nan_to_num(neginf=0.0))
        rounded = p if exact else (p * 2.0**OFFSET).to(torch.float8_e4m3fn).to(dtype) * 2.0**-OFFSET
        out[batch, part, head] = (rounded @ values) / p.sum(dim=-1, keepdim=True).clamp(min=1e-30)
    return {"out": out if exact else out.bfloat16(), "lse": lse}


def _multiply(query: Any, keys: Any) -> Any:
    import torch

    # query @ keys.T, cut after the products of each instruction
    scores = torch.zeros((len(query), len(keys)), dtype=query.dtype, device=query.device)
    for column in range(0, query.shape[1], MMA_COLUMNS):
        part = slice(column, column + MMA_COLUMNS)
        scores += query[:, part] @ keys[:, part].T
        unit = torch.ldexp(torch.ones_like(scores), torch.frexp(scores).exponent - SCORE_BITS)
        scores = torch.trunc(scores / unit) * unit
    return scores


def _complete(params: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(params) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"{unknown[0]}: unknown parameter. Choose from {', '.join(DEFAULTS)}")
    p = {**DEFAULTS, **params}
    p["hkv"] = p["h"] if p["hkv"] is None else p["hkv"]
    p["sk"] = p["sq"] if p["sk"] is None else p["sk"]
    for key in ("b", "h", "hkv", "sq", "sk", "max_ctas"):
        if not isinstance(p[key], int) or p[key] < 0:
            raise ValueError(f"{key}: must be a whole number, zero or more, is {p[key]!r}")
    if p["d"] not in HEAD_DIMS:
        raise ValueError(f"d: must be 64, 128 or 256, is {p['d']!r}")
    for key, choices in (("input", INPUTS), ("lengths", tuple(varlen.LENGTHS)), ("values", SOURCES)):
        if p[key] not in choices:
            raise ValueError(f"{key}: must be one of {', '.join(choices)}, is {p[key]!r}")
    if p["blocks"] and p["values"] != SOURCES[0]:
        raise ValueError(f"values: must be {SOURCES[0]} with blocks, is {p['values']!r}")
    if p["lengths"] != "equal" and (p["blocks"] or p["values"] != SOURCES[0]):
        raise ValueError(f"lengths: must be equal with blocks and with values of 16 bits, is {p['lengths']!r}")
    if not p["hkv"] or p["h"] % p["hkv"]:
        raise ValueError(f"hkv: must divide h = {p['h']}, is {p['hkv']}")
    return p
