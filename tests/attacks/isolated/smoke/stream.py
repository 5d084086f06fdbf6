"""The untrusted side of stream: it launches the kernel, and knows neither inputs nor reference."""

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

    flashcore.stream_axpy(inputs["a"], inputs["x"], inputs["y"], out=outputs["out"], max_ctas=inputs["max_ctas"])
