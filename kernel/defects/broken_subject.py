"""Subject: a kernel that does not compile. The gate ``build`` must fail on it, and nothing else may crash."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def build(root: Path) -> dict[str, Any]:  # noqa: ARG001 - part of the interface
    """List one entry function, in a file with an error."""
    return {
        "library": "libflashcore_broken.so",
        "launchers": [],
        "includes": ["kernel/defects"],
        "binding": [],
        "entries": [
            {"symbol": "defect_broken", "source": "kernel/defects/broken.cu", "max_registers": 64, "dynamic_shared_bytes": 0}
        ],
    }


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Count the work."""
    return {"flops": 2.0 * params["n"], "bytes": 12.0 * params["n"], "entries": ["defect_broken"]}


def reference(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Raise NotImplementedError: this subject cannot run."""
    raise NotImplementedError(f"this subject cannot run on {sorted(inputs)}")
