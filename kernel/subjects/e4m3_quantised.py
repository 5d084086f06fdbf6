"""Subject: 16-bit inputs, rounded to E4M3 by a kernel, and attention over them. d = 128.

Parameters: ``b``, ``h``, ``hkv``, ``sq``, ``sk``, ``input``, ``size`` and ``transform`` as in e4m3_accuracy.py, and ``part``: ``all``, only the kernels
that ``quantise``, or only ``attention`` over what they wrote.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]


def _load_neighbour(name: str) -> ModuleType:
    module, file = ModuleType(f"flashcore_subjects_{name}"), str(KERNEL / f"subjects/{name}.py")
    vars(module)["__file__"] = file
    SourceFileLoader(module.__name__, file).exec_module(module)
    return module


accuracy = _load_neighbour("e4m3_accuracy")
SIGNS = (0x9E3779B9, 0x7F4A7C15, 0xBF58476D, 0x94D049BB)
WORD = 32
PARTS = ("all", "quantise", "attention")
SOURCE = "kernel/src/quantise.cu"
DEVICE = "cuda"


def build(root: pathlib.Path) -> dict[str, Any]:
    """Build the subject e4m3, with the kernels that quantise."""
    spec: dict[str, Any] = accuracy.build(root)
    names = ("largest_fp16", "largest_bf16", "round_fp16", "round_bf16", "scales")
    common = {"source": SOURCE, "max_registers": 64, "dynamic_shared_bytes": 0, "requires": [], "max_waits_per_hgmma": None}
    return {
        **spec,
        "launchers": [*spec["launchers"], SOURCE],
        "binding": [*spec["binding"], "kernel/subjects/e4m3_accuracy.py", "kernel/flashcore/_quantise.py"],
        "entries": [*spec["entries"], *({"symbol": f"flashcore_quantise_{name}", **common} for name in names)],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work: three tensors of 16 bits are read twice, and written once with 8."""
    own, part = _divide(params)
    work = accuracy.problem(own)
    b, h, hkv = own["b"], own["h"], own.get("hkv", own["h"])
    moved = 128.0 * b * (h * own["sq"] + 2 * hkv * own["sk"]) * (2 * 2 + 1)
    kernels = [f"flashcore_quantise_{name}" for name in ("largest_bf16", "round_bf16", "scales")] + [
        "flashcore_e4m3_transpose_values"
    ]
    attention = ["flashcore_e4m3_fwd_d128_full"]
    if part == "quantise":
        return {"flops": 0.0, "bytes": moved, "entries": kernels}
    return {
        **work,
        "bytes": work["bytes"] + (moved if part == "all" else 0),
        "entries": [*kernels, *attention] if part == "all" else attention,
    }


load = accuracy.e4m3.load


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw bfloat16 tensors, or for ``attention`` alone round them."""
    import torch

    own, part = _divide(params)
    p = accuracy.complete(own)
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    drawn = (x.bfloat16() for x in accuracy.hostile.INPUTS[p["input"]](p, generator))
    signs = SIGNS if p["transform"] else None
    given = {
        **dict(zip("qkv", drawn, strict=True)),
        "q_signs": signs,
        "k_signs": signs,
        "transform": p["transform"],
        "part": part,
    }
    if part != "attention":
        return given
    return {**given, **{f"original_{name}": given[name] for name in "qkv"}, **quantise(given)}


def quantise(inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Launch the kernels that round, and return what attention takes."""
    import flashcore
    from flashcore import _quantise

    rounded: dict[str, Any] = {}
    for name in "qk":
        out = (outputs[name], outputs[f"{name}_scale"]) if outputs else None
        options = {"kv_heads": inputs["k"].shape[2], "signs": inputs[f"{name}_signs"], "out": out}
        rounded[name], rounded[f"{name}_scale"] = _quantise.quantise(inputs[name], **options)
    out = (None, outputs["v_scale"]) if outputs else None
    _, rounded["v_scale"] = _quantise.quantise(inputs["v"], only_scale=True, out=out)
    return {**rounded, "v": flashcore.transpose_values(inputs["v"], rounded["v_scale"]).view(rounded["q"].dtype)}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``out``, or bytes and scales."""
    import torch

    q, k = inputs["q"], inputs["k"]
    if inputs["part"] != "quantise":
        return {"out": torch.empty(q.shape, dtype=torch.bfloat16, device=DEVICE)}
    scales = {name: torch.empty((k.shape[0], k.shape[2]), dtype=torch.float32, device=DEVICE) for name in accuracy.SCALES}
    return {
        "q": torch.empty(q.shape, dtype=torch.uint8, device=DEVICE),
        "k": torch.empty(k.shape, dtype=torch.uint8, device=DEVICE),
        **scales,
    }


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once on the current stream."""
    import flashcore

    part = inputs["part"]
    ready = inputs if part == "attention" else quantise(inputs, outputs if part == "quantise" else None)
    if part != "quantise":
        scales = {name: ready[name] for name in accuracy.SCALES}
        flashcore.attention_e4m3(ready["q"], ready["k"], ready["v"], transposed=True, out=outputs["out"], **scales)


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute float64 inputs with the formula, else with one scale per tensor. Rounding alone: the formula of a scale."""
    import torch

    q, k, v = (inputs.get(f"original_{name}", inputs[name]) for name in "qkv")
    if inputs["part"] == "quantise":
        if inputs["transform"]:
            q, k = (transform(x.float()) for x in (q, k))
        rounded = accuracy.quantise(q.float(), k.float(), v.float())
        return {name: rounded[name] for name in ("q", "k", *accuracy.SCALES)}
    if q.dtype == torch.float64:
        return {"out": accuracy.attend(q, k, v)}
    rounded = accuracy.quantise(q.float(), k.float(), v.float(), whole=True)
    return {"out": accuracy.e4m3.reference({**rounded, "causal": False})["out"]}


def transform(x: Any, signs: Sequence[int] = SIGNS) -> Any:
    """Transform float32 rows (..., d) as the kernels do, in the order of their sums. A word of signs is for 32 columns."""
    import torch

    columns = x.shape[-1]
    bits = [signs[column // WORD] >> column % WORD & 1 for column in range(columns)]
    x = x * (1.0 - 2.0 * torch.tensor(bits, device=x.device))
    step = 1
    while step < columns:
        low, high = x.unflatten(-1, (-1, 2, step)).unbind(-2)
        x = torch.stack([low + high, low - high], dim=-2).flatten(-3)
        step *= 2
    return x * (1.0 / math.sqrt(columns))


def _divide(params: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    own = {**params, "b": params.get("b", 1)}
    part = own.pop("part", "all")
    if part not in PARTS:
        raise ValueError(f"part: must be one of {', '.join(PARTS)}, is {part!r}")
    return own, part
