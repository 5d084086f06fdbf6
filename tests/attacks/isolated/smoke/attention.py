"""The untrusted side of attention: it launches the kernel, and knows neither inputs nor reference."""

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

    if "cu_seqlens_q" in inputs:
        flashcore.attention_varlen(
            *(inputs[name] for name in ("q", "k", "v", "cu_seqlens_q")), inputs.get("cu_seqlens_k"),
            **{name: inputs.get(name) for name in ("page_table", "seqused_k")},
            **{name: inputs[name] for name in ("causal", "max_ctas")}, out=outputs["out"], lse=outputs["lse"],
        )  # fmt: skip
        return
    flashcore.attention(
        inputs["q"], inputs["k"], inputs["v"], causal=inputs["causal"], layout=inputs["layout"], out=outputs["out"], lse=outputs["lse"],
        max_ctas=inputs["max_ctas"],
    )  # fmt: skip
