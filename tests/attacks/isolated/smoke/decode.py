"""The untrusted side of decode: it launches the kernel, and knows neither inputs nor reference."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Mapping
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[4] / "kernel"


def load(library: pathlib.Path) -> None:
    """Use this library."""
    sys.path.insert(0, str(KERNEL))
    import flashcore

    flashcore.load(library)


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch once on the current stream."""
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
            **{name: inputs[name] for name in ("causal", "splits", "deterministic", "max_ctas")},
        )  # fmt: skip
    for name in outputs.keys() & {"k", "v"}:
        outputs[name].copy_({"k": k, "v": v}[name].nan_to_num(77.0))
