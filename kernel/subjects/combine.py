"""Subject: the merge of partial results of attention, as FlashAttention-3's ``flash_attn_combine``.

Parameters of a workload: ``dtype`` of the output, ``splits``, ``b``, ``sq``, ``h``, ``d``, ``layout`` of the partial outputs (bshd, or bhsd as
in FlashAttention-3's own test; log-sum-exps are always (splits, b, h, sq)), ``padding`` (columns behind each row, default 0), ``input``,
``max_ctas``.
"""

from __future__ import annotations

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


package = _load_neighbour("package")
FLOAT_BYTES = 4
BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}
LAYOUTS = ("bshd", "bhsd")
INPUTS: Mapping[str, tuple[float, float]] = {
    "normal": (5.0, 1.0),
    "large": (300.0, 30.0),
    "constant": (5.0, 0.0),
    "holes": (5.0, 1.0),
}
"""Mean and standard deviation of the log-sum-exps. ``holes``: some are -inf, all of the first row too, and their outputs are NaN."""

DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("dtype", "splits", "b", "sq", "h", "d")), "layout": "bshd", "padding": 0, "input": "normal", "max_ctas": 0,
}  # fmt: skip


def build(root: pathlib.Path) -> dict[str, Any]:
    """Read the build and its limits from kernel/variants.toml."""
    table = tomllib.loads((root / "kernel/variants.toml").read_text(encoding="utf-8"))["combine"]
    entries = [{**table["tiles"][entry["tile"]], **entry} for entry in table["entries"]]
    return {
        **{key: table[key] for key in ("library", "launchers", "includes", "binding")},
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
    """Count the work of one workload."""
    p = _complete(params)
    rows = p["b"] * p["sq"] * p["h"]
    read = p["splits"] * (p["d"] + 1) * FLOAT_BYTES
    return {
        "flops": 2.0 * rows * p["splits"] * p["d"],
        "bytes": float(rows * (read + p["d"] * BYTES[p["dtype"]] + FLOAT_BYTES)),
        "entries": ["flashcore_combine_f32"] if rows else [],
    }


def load(library: pathlib.Path) -> None:
    """Use this library."""
    package.load(KERNEL, library)


def inputs(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Draw partial results on the current CUDA device, and add the options."""
    import torch

    p = _complete(params)
    generator = torch.Generator(device="cuda").manual_seed(seed)
    sizes = (p["sq"], p["h"]) if p["layout"] == "bshd" else (p["h"], p["sq"])
    shape = (p["splits"], p["b"], *sizes, p["d"] + p["padding"])
    partial = torch.randn(shape, device="cuda", generator=generator)[..., : p["d"]]
    partial = partial if p["layout"] == "bshd" else partial.transpose(2, 3)
    mean, deviation = INPUTS[p["input"]]
    lse = torch.randn((p["splits"], p["b"], p["h"], p["sq"]), device="cuda", generator=generator).mul_(deviation).add_(mean)
    if p["input"] == "holes":
        empty = torch.rand(lse.shape, device="cuda", generator=generator) < 0.3  # noqa: PLR2004 - of the splits of a row
        empty[:, 0, 0, 0] = True
        lse.masked_fill_(empty, -torch.inf)
        partial.masked_fill_(empty.transpose(2, 3).unsqueeze(-1), torch.nan)
    return {"partial": partial, "lse_partial": lse.transpose(2, 3), "dtype": p["dtype"], "max_ctas": p["max_ctas"]}


def outputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Allocate the output and the log-sum-exp (batch, heads, sequence)."""
    import torch

    _, batch, sequence, heads, head_dim = inputs["partial"].shape
    options = {"device": inputs["partial"].device}
    return {
        "out": torch.empty((batch, sequence, heads, head_dim), dtype=_get_dtype(inputs["dtype"]), **options),
        "lse": torch.empty((batch, heads, sequence), dtype=torch.float32, **options),
    }


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once on the current stream."""
    from flashcore._combine import combine

    combine(inputs["partial"], inputs["lse_partial"], outputs["out"], lse=outputs["lse"], max_ctas=inputs["max_ctas"])


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the same with PyTorch in the inputs' precision, as ``attention_combine_ref`` of FlashAttention-3's tests."""
    import torch

    partial, lse_partial = inputs["partial"], inputs["lse_partial"]
    lse = torch.logsumexp(lse_partial, dim=0)
    out = torch.zeros(partial.shape[1:], dtype=partial.dtype, device=partial.device)
    for values, sums in zip(partial, lse_partial, strict=True):  # split by split, because the largest inputs fill gigabytes
        weights = torch.exp(sums - lse).masked_fill(sums == -torch.inf, 0.0).unsqueeze(-1)
        out += (values * weights).masked_fill_(weights == 0.0, 0.0)
    low = partial.dtype != torch.float64
    return {"out": out.to(_get_dtype(inputs["dtype"])) if low else out, "lse": lse.transpose(1, 2).contiguous()}


def _get_dtype(name: str) -> Any:
    import torch

    return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[name]


def _complete(params: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(params) - set(DEFAULTS))
    if unknown:
        raise ValueError(f"{unknown[0]}: unknown parameter. Choose from {', '.join(DEFAULTS)}")
    p = {**DEFAULTS, **params}
    for name, smallest in {"splits": 1, "b": 0, "sq": 0, "h": 0, "d": 1, "padding": 0, "max_ctas": 0}.items():
        if not isinstance(p[name], int) or p[name] < smallest:
            raise ValueError(f"{name}: must be a whole number from {smallest} on, is {p[name]!r}")
    for name, choices in {"dtype": BYTES, "layout": LAYOUTS, "input": INPUTS}.items():
        if p[name] not in choices:
            raise ValueError(f"{name}: must be one of {', '.join(choices)}, is {p[name]!r}")
    return p
