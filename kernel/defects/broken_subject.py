"""Subjects whose build must fail the gate ``build``, and must not crash anything else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUBJECT = ""
"""The subject's name in the suite. The worker sets it."""

ENTRIES = {
    "broken": ("defect_broken", "kernel/defects/broken.cu"),
    "unnamed-entry": ("defect_named", "kernel/defects/unnamed.cu"),
}
"""Subject to the one entry function that it names, and its source."""


def build(root: Path) -> dict[str, Any]:  # noqa: ARG001 - the interface passes the checkout
    """Name one entry function."""
    symbol, source = ENTRIES[SUBJECT]
    return {
        "library": f"libflashcore_{SUBJECT}.so",
        "launchers": [],
        "includes": ["kernel/defects"],
        "binding": [],
        "entries": [{"symbol": symbol, "source": source, "max_registers": 64, "dynamic_shared_bytes": 0}],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """FLOP, bytes and entry function over ``n`` floats."""
    return {"flops": 2.0 * params["n"], "bytes": 12.0 * params["n"], "entries": [ENTRIES[SUBJECT][0]]}


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Raise NotImplementedError: nothing of these subjects can run."""
    raise NotImplementedError(f"this subject cannot run on {sorted(inputs)}")
