"""The untrusted side: ways to cheat that were published, and siblings of them. Each is written anew.

``SOURCES`` says where each was described. Every page but that of ``SEEN_THROUGH_OTHERS`` was found on 2026-11-22, some only as excerpts.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import escapes
import outputs as wrong_outputs
import times
import work

MODULES = (work, wrong_outputs, times, escapes)


def run(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Launch, or cheat."""
    cheat = next(getattr(module, inputs["cheat"]) for module in MODULES if hasattr(module, inputs["cheat"]))
    cheat(inputs["x"], outputs["out"])


KERNELBENCH = "https://github.com/ScalingIntelligence/KernelBench/pull/82"
LEADERBOARD = "https://github.com/gpu-mode/reference-kernels/issues/162"
PYGPUBENCH = "https://github.com/gpu-mode/pygpubench/pull/7"
EXPLOITS = "https://github.com/gpu-mode/pygpubench/tree/main/exploits"
FIELD_GUIDE = "https://www.wafer.ai/blog/reward-hacks-field-guide"
METR = "https://metr.org/blog/2025-06-05-recent-reward-hacking/"
SAKANA = "https://sakana.ai/ai-cuda-engineer/"
TERMINAL_BENCH = "https://github.com/harbor-framework/terminal-bench/pull/1010"
MAKORA = "https://makora.com/blog/reward-hacks"
BATCH_AND_SKIP = "https://github.com/gpu-mode/reference-kernels/pull/104"
REPLAY = "https://github.com/gpu-mode/reference-kernels/pull/142"
SEEN_THROUGH_OTHERS = (SAKANA,)
"""Read in what others wrote about it: https://agentpostmortem.com/case/apm-0007."""

SOURCES = {
    "address": FIELD_GUIDE,
    "shape": BATCH_AND_SKIP,
    "file_replay": LEADERBOARD,
    "public_seed": REPLAY,
    "elapsed_time": LEADERBOARD,
    "synchronize": TERMINAL_BENCH,
    "perf_counter": TERMINAL_BENCH,
    "side_stream": KERNELBENCH,
    "background_thread": FIELD_GUIDE,
    "lazy": LEADERBOARD,
    "nothing": PYGPUBENCH,
    "leftover": KERNELBENCH,
    "constant": SAKANA,
    "identity": FIELD_GUIDE,
    "low_precision": FIELD_GUIDE,
    "fewer_steps": MAKORA,
    "zero_inputs": KERNELBENCH,
    "neighbours": BATCH_AND_SKIP,
    "expected_tensors": PYGPUBENCH,
    "expected_nan": PYGPUBENCH,
    "call_stack": METR,
    "descriptors": PYGPUBENCH,
    "supervisor_memory": EXPLOITS,
    "ptrace": EXPLOITS,
    "answer_early": EXPLOITS,
    "first_call": MAKORA,
}
"""Where a cheat was described. The others are siblings of our own."""
