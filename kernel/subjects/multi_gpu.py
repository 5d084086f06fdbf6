"""Subject: FlashCore's attention on several GPUs.

Parameters: those of attention.py, ``gpus`` (from the suite), and ``scheme``

- ``heads``: each GPU has some heads. An all-gather gives every GPU the whole output
- ``context``: each GPU has some queries and keys. Keys and values go round a ring, and partial results merge by their log-sum-exp

A ``group`` in the inputs carries the messages (flashcore_ci/worker/group.py).
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]
FILES = ("kernel/subjects/attention.py",)
SPLITS = {"heads": {"q": 2, "k": 2, "v": 2}, "context": {"q": 1, "k": 1, "v": 1, "out": 1, "lse": 2}}
"""Dimensions along which tensors are divided. What is not here is equal on all GPUs."""
OWN = ("scheme", "gpus")
ELEMENT_BYTES, LSE_BYTES = 2, 4


def _load_neighbour(name: str) -> ModuleType:
    module = ModuleType(f"flashcore_subjects_{name}")
    module.__file__ = str(KERNEL / f"subjects/{name}.py")
    SourceFileLoader(module.__name__, module.__file__).exec_module(module)
    return module


attention = _load_neighbour("attention")
load = attention.load


def build(root: pathlib.Path) -> dict[str, Any]:
    """Build the attention kernels."""
    whole = attention.build(root)
    return {**whole, "binding": [*whole["binding"], *FILES]}


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work of all GPUs together."""
    split(params)
    counted: dict[str, Any] = attention.problem(_of_one(params))
    return counted


def split(params: Mapping[str, Any]) -> dict[str, int]:
    """Name the dimension along which each tensor is divided among the GPUs."""
    scheme, gpus, p = params.get("scheme"), params.get("gpus", 1), _of_one(params)
    if scheme not in SPLITS:
        raise ValueError(f"scheme: must be one of {', '.join(SPLITS)}, is {scheme!r}")
    if scheme == "context" and p.get("causal"):
        raise ValueError("causal: must be false for the scheme context, is True")
    names = ("h", "hkv") if scheme == "heads" else ("sq", "sk")
    for name in names:
        if name in p and p[name] % gpus:
            raise ValueError(f"{name}: must be a multiple of {gpus} GPUs, is {p[name]}")
    return dict(SPLITS[scheme])


def traffic(params: Mapping[str, Any]) -> float:
    """Return the bytes that each GPU receives."""
    gpus, p = params["gpus"], _of_one(params)
    heads, keys = p.get("hkv", p["h"]), p.get("sk", p["sq"])
    if params["scheme"] == "heads":
        part = p["b"] * p["sq"] * p["h"] // gpus * (p["d"] * ELEMENT_BYTES + LSE_BYTES)
    else:
        part = 2 * p["b"] * keys // gpus * heads * p["d"] * ELEMENT_BYTES
    return float((gpus - 1) * part)


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw the tensors of all GPUs together."""
    return {**attention.inputs(_of_one(params), seed), "scheme": params["scheme"]}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate ``out`` and ``lse``: whole on every GPU for the scheme heads, else a part."""
    import torch

    b, sq, h, d = inputs["q"].shape
    h *= inputs["group"].size if inputs["scheme"] == "heads" else 1
    q = inputs["q"]
    return {
        "out": torch.empty((b, sq, h, d), dtype=q.dtype, device=q.device),
        "lse": torch.empty((b, h, sq), dtype=torch.float32, device=q.device),
    }


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch on the current stream of every GPU."""
    (_by_heads if inputs["scheme"] == "heads" else _by_context)(inputs, outputs)


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the whole by PyTorch on one GPU."""
    found: dict[str, Any] = attention.reference(inputs)
    return found


def attend(inputs: Mapping[str, Any], k: Any, v: Any) -> tuple[Any, Any]:
    """Attend to these keys on one GPU. Return the output and the log-sum-exp."""
    import flashcore

    out, lse = flashcore.attention(inputs["q"], k, v, causal=inputs["causal"], return_lse=True, max_ctas=inputs["max_ctas"])
    return out, lse


def _by_heads(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    import torch

    group = inputs["group"]
    out, lse = attend(inputs, inputs["k"], inputs["v"])
    outs, lses = (torch.empty((group.size, *part.shape), dtype=part.dtype, device=part.device) for part in (out, lse))
    pending = [group.all_gather(outs, out), group.all_gather(lses, lse)]
    for each in pending:
        each.wait()
    place_heads(outs, lses, outputs)


def place_heads(outs: Any, lses: Any, outputs: Mapping[str, Any]) -> None:
    """Put the heads of each rank, (ranks, ...), next to each other."""
    outputs["out"].unflatten(2, (len(outs), -1)).copy_(outs.movedim(0, 2))
    outputs["lse"].unflatten(1, (len(lses), -1)).copy_(lses.movedim(0, 1))


def _by_context(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    import torch

    group = inputs["group"]
    here = torch.stack((inputs["k"], inputs["v"]))
    total, whole = None, None
    for step in range(group.size):
        arriving = torch.empty_like(here) if step + 1 < group.size else None
        pending = group.pass_on(arriving, here) if arriving is not None else None
        out, lse = attend(inputs, here[0], here[1])
        total, whole = (out.float(), lse) if total is None else merge(total, whole, out, lse)
        if pending is not None:
            pending.wait()
            here = arriving
    outputs["out"].copy_(total)
    outputs["lse"].copy_(whole)


def merge(total: Any, whole: Any, out: Any, lse: Any) -> tuple[Any, Any]:
    """Join two partial results. Each counts by its share of the sum of exponentials."""
    import torch

    joined = torch.logaddexp(whole, lse)
    before, after = (
        torch.exp(part - joined).nan_to_num(0.0, posinf=math.inf).transpose(1, 2)[..., None] for part in (whole, lse)
    )
    return total * before + out.float() * after, joined


def _of_one(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name not in OWN}
