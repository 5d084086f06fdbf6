"""Subject: y = 2 x, small enough to compile in a moment. The tests of the command line judge it."""

from __future__ import annotations

SYMBOL = "twice"


def build(root):
    return {
        "library": "libtwice.so",
        "launchers": ["kernel/launch.cu"],
        "includes": ["kernel"],
        "binding": [],
        "entries": [
            {
                "symbol": SYMBOL,
                "source": "kernel/twice.cu",
                "max_registers": 64,
                "requires": [],
                "max_waits_per_hgmma": None,
                "dynamic_shared_bytes": 0,
            }
        ],
    }


def problem(params):
    return {"flops": float(params["n"]), "bytes": 8.0 * params["n"], "entries": [SYMBOL]}
