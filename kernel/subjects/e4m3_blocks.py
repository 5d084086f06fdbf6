"""Subject: 16-bit inputs, rounded to E4M3 with a scale for each block of rows, and attention over them.

Parameters: ``b``, ``h``, ``hkv``, ``sq``, ``sk``, ``input``, ``size``, ``transform`` and ``flush`` as in e4m3_accuracy.py, ``d`` (64, 128
or 256, default 128), and ``part``: ``all``, only the kernels that ``quantise``, only ``attention`` over what they wrote, or ``columns``: E4M3
values in columns are brought into order. With ``blocks = false`` it is the subject e4m3_quantised: one scale for each head.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]


def _load_neighbour(name: str) -> ModuleType:
    module, file = ModuleType(f"flashcore_subjects_{name}"), str(KERNEL / f"subjects/{name}.py")
    vars(module)["__file__"] = file
    SourceFileLoader(module.__name__, file).exec_module(module)
    return module


quantised = _load_neighbour("e4m3_quantised")
accuracy = quantised.accuracy
PARTS = ("all", "quantise", "attention", "columns")
SOURCE = "kernel/src/quantise_blocks.cu"
ROWS, VALUES = ([f"flashcore_quantise_{kind}_{dtype}" for dtype in ("fp16", "bf16")] for kind in ("rows", "values"))
PERMUTE = "flashcore_e4m3_permute_values"
SIGNS = (*quantised.SIGNS, 0xD6E8FEB8, 0x6A09E667, 0xBB67AE85, 0x3C6EF372)
FLUSH = 128  # keys that the tensor cores add up before fp32 does
KEYS = 128
ANY_HEAD_DIM = ("normal", "outlier", "ones", "equal")  # inputs that do not count columns
WARP = 32
DEVICE = "cuda"


def build(root: pathlib.Path) -> dict[str, Any]:
    """Build the subject e4m3_quantised, with the kernels that round blocks."""
    spec: dict[str, Any] = quantised.build(root)
    common = {"source": SOURCE, "max_registers": 128, "dynamic_shared_bytes": 0, "requires": [], "max_waits_per_hgmma": None}
    return {
        **spec,
        "launchers": [*spec["launchers"], SOURCE],
        "binding": [*spec["binding"], "kernel/subjects/e4m3_quantised.py"],
        "entries": [*spec["entries"], *({"symbol": symbol, **common} for symbol in (*ROWS, *VALUES, PERMUTE))],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work: three tensors of 16 bits are read once, and written once with 8."""
    if not params.get("blocks", True):
        work: dict[str, Any] = quantised.problem(_drop(params))
        return work
    own, part, d = _divide(params)
    numbers = {name: accuracy.complete(own)[name] for name in accuracy.NUMBERS}
    work = accuracy.e4m3.problem({**numbers, "d": d})
    b, h, hkv = own["b"], own["h"], own.get("hkv", own["h"])
    attention = f"flashcore_e4m3_block_d{d}_full"
    rows = float(b * (h * own["sq"] + 2 * hkv * own["sk"]))
    kernels = [ROWS[1], VALUES[1]]
    if part == "columns":
        return {"flops": 0.0, "bytes": 2.0 * d * b * hkv * own["sk"], "entries": [PERMUTE]}
    if part == "quantise":
        return {"flops": 0.0, "bytes": 3.0 * d * rows, "entries": kernels}
    return {
        **work,
        "bytes": work["bytes"] + (3.0 * d * rows if part == "all" else 0.0),
        "entries": [*kernels, attention] if part == "all" else [attention],
    }


load = accuracy.e4m3.load


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw bfloat16 tensors, and round them for ``attention``. For ``columns``, E4M3 values."""
    import torch

    if not params.get("blocks", True):
        return {**quantised.inputs(_drop(params), seed), "blocks": False}
    own, part, d = _divide(params)
    p = {**accuracy.complete(own), "d": d}
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    q, k, v = (x.bfloat16() for x in accuracy.hostile.INPUTS[p["input"]](p, generator))
    given = {"q": q, "k": k, "v": v, "transform": p["transform"], "part": part, "blocks": True}
    if part == "columns":
        columns = torch.empty((*v.shape[:1], *v.shape[2:], v.shape[1]), dtype=torch.uint8, device=DEVICE).permute(0, 3, 1, 2)
        columns.copy_(v.to(torch.float8_e4m3fn).view(torch.uint8))
        return {"v": columns, "part": part, "blocks": True}
    if part != "attention":
        return given
    return {**given, **{f"original_{name}": given[name] for name in "qkv"}, **quantise(given)}


def quantise(inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Launch the kernels that round, and return what attention takes."""
    from flashcore import _blocks

    rounded: dict[str, Any] = {}
    for name in "qkv":
        signs = _blocks.SIGNS if inputs["transform"] and name != "v" else None
        out = (outputs[name], outputs[f"{name}_scale"]) if outputs else None
        rounded[name], rounded[f"{name}_scale"] = _blocks.quantise_blocks(inputs[name], name, signs=signs, out=out)
    return rounded


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``out``, or bytes and scales."""
    import torch

    if not inputs["blocks"]:
        tensors: dict[str, Any] = quantised.outputs(inputs)
        return tensors
    if inputs["part"] == "columns":
        return {"v": _empty_values(inputs["v"])}
    if inputs["part"] != "quantise":
        return {"out": torch.empty(inputs["q"].shape, dtype=torch.bfloat16, device=DEVICE)}
    scales = {
        f"{name}_scale": torch.empty(_count_blocks(name, inputs[name]), dtype=torch.float32, device=DEVICE) for name in "qkv"
    }
    rows = {name: torch.empty(inputs[name].shape, dtype=torch.uint8, device=DEVICE) for name in "qk"}
    return {**rows, "v": _empty_values(inputs["v"]), **scales}


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once on the current stream."""
    import flashcore

    if not inputs["blocks"]:
        quantised.run(inputs, outputs)
        return
    part = inputs["part"]
    if part == "columns":
        outputs["v"].copy_(flashcore.transpose_values(inputs["v"]).view(outputs["v"].dtype))
        return
    ready = inputs if part == "attention" else quantise(inputs, outputs if part == "quantise" else None)
    if part != "quantise":
        scales = {name: ready[name] for name in accuracy.SCALES}
        flashcore.attention_e4m3(ready["q"], ready["k"], ready["v"], transposed=True, out=outputs["out"], **scales)


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute float64 inputs with the formula, else FlashAttention-3's scheme. Rounding and order: the formulas of them."""
    import torch

    if not inputs["blocks"]:
        results: dict[str, Any] = quantised.reference(inputs)
        return results
    part = inputs["part"]
    if part == "columns":
        return {"v": order(inputs["v"])}
    q, k, v = (inputs.get(f"original_{name}", inputs[name]) for name in "qkv")
    if part == "quantise":
        if inputs["transform"]:
            q, k = (quantised.transform(x.float(), SIGNS) for x in (q, k))
        rounded = quantise_exactly(q.float(), k.float(), v.float(), keeps_length=inputs["transform"])
        return {**rounded, "v": order(rounded["v"])}
    if q.dtype == torch.float64:
        return {"out": accuracy.attend(q, k, v)}
    rounded = accuracy.quantise(q.float(), k.float(), v.float(), whole=True)
    return {"out": accuracy.e4m3.reference({**rounded, "causal": False})["out"]}


def quantise_exactly(q: Any, k: Any, v: Any, *, keeps_length: bool = False) -> dict[str, Any]:
    """Round to E4M3 bytes with the formula of ``quantise_blocks``, without transposing. ``keeps_length``: of keys."""
    import torch

    rounded: dict[str, Any] = {}
    for name, tensor in zip("qkv", (q, k, v), strict=True):
        rows = accuracy.e4m3.ROWS[name]
        batch, length, heads, columns = tensor.shape
        blocks = -(-length // rows)
        filled = torch.zeros((batch, blocks * rows, heads, columns), dtype=tensor.dtype, device=tensor.device)
        filled[:, :length] = tensor
        largest = filled.abs().view(batch, blocks, rows, heads, columns).amax(dim=(2, 4)).transpose(1, 2)
        scale = accuracy.scale_of(largest)
        factor = accuracy.e4m3.spread(scale, tensor, rows)
        shorter = accuracy.e4m3.fp8.quantise(tensor, factor)
        kept = keep_length(tensor / factor[..., None], shorter) if keeps_length and name == "k" else shorter
        rounded |= {name: kept, f"{name}_scale": scale}
    return rounded


def keep_length(y: Any, rounded: Any) -> Any:
    """Take ``rounded``, or bytes of stretched rows, whichever change rows ``y`` less along themselves. As quantise/row_length.cuh."""
    import torch

    def lost_length(candidate: Any) -> Any:
        return row_product(y, y - accuracy.e4m3.fp8.to_float(candidate))

    lost = lost_length(rounded)
    candidate = accuracy.e4m3.fp8.quantise(y * (1.0 + lost / row_product(y, y)), torch.ones_like(y[..., 0]))
    return torch.where(lost_length(candidate).abs() < lost.abs(), candidate, rounded)


def row_product(x: Any, y: Any) -> Any:
    """Add the products of each row in the kernel's order: neighbouring columns of a lane, then the lanes of a warp. Keep the dimension."""
    products = (x * y).unflatten(-1, (WARP, -1))
    total = products[..., 0]
    for column in range(1, products.shape[-1]):
        total = total + products[..., column]
    while total.shape[-1] > 1:
        total = total[..., ::2] + total[..., 1::2]
    return total


def order(v: Any) -> Any:
    """Transpose E4M3 bytes (batch, keys, heads, d) and permute them as attention/value_order.h does. Missing keys are zeros."""
    import torch

    batch, length, heads, columns = v.shape
    filled = torch.zeros((batch, -(-length // KEYS) * KEYS, heads, columns), dtype=v.dtype, device=v.device)
    filled[:, :length] = v
    place, row = torch.arange(filled.shape[1], device=v.device), torch.arange(columns, device=v.device)
    key = place // 16 * 16 + place // 2 % 2 * 8 + place // 4 % 4 * 2 + place % 2
    column = row // 32 * 32 + row // 2 % 4 * 8 + row // 8 % 4 * 2 + row % 2
    return filled[:, key][..., column].permute(0, 2, 3, 1).contiguous()


def _empty_values(v: Any) -> Any:
    import torch

    batch, length, heads, columns = v.shape
    return torch.empty((batch, heads, columns, -(-length // KEYS) * KEYS), dtype=torch.uint8, device=DEVICE)


def _count_blocks(name: str, tensor: Any) -> tuple[int, int, int]:
    return (tensor.shape[0], tensor.shape[2], -(-tensor.shape[1] // accuracy.e4m3.ROWS[name]))


def _drop(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "blocks"}


def _divide(params: Mapping[str, Any]) -> tuple[dict[str, Any], str, int]:
    own = {**_drop(params), "b": params.get("b", 1)}
    part, flush = own.pop("part", "all"), own.pop("flush", FLUSH)
    d = own.pop("d", accuracy.HEAD_DIM)
    if part not in PARTS:
        raise ValueError(f"part: must be one of {', '.join(PARTS)}, is {part!r}")
    if d not in accuracy.e4m3.HEAD_DIMS:
        raise ValueError(f"d: must be 64, 128 or 256, is {d!r}")
    if d != accuracy.HEAD_DIM and own["input"] not in ANY_HEAD_DIM:
        raise ValueError(f"input: must be one of {', '.join(ANY_HEAD_DIM)} with d = {d}, is {own['input']!r}")
    if flush != FLUSH:
        raise ValueError(f"flush: this kernel adds up {FLUSH} keys in the tensor cores, not {flush!r}")
    return own, part, d
