"""Subject: FlashAttention-3's own tests on modules with planted defects, and without one (``sound``).

``gates/upstream-defects.toml`` runs them. Each has exactly one wrong value in the results of one feature, or the bug that its function names,
or an edit of the package's Python code.
"""

from __future__ import annotations

import functools
import inspect
import pathlib
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

KERNEL = pathlib.Path(__file__).resolve().parents[1]
FILES = ("kernel/subjects/upstream.py", "kernel/defects/edits.py")
FUNCTIONS = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")
NUDGE = 1.0
Call = Mapping[str, Any]


def _load(name: str, file: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = str(KERNEL / file)
    SourceFileLoader(module.__name__, module.__file__).exec_module(module)
    return module


sound = _load("flashcore_subjects_upstream", "subjects/upstream.py")
load = sound.load
FEATURES: Mapping[str, Callable[[Call], bool]] = {
    "causal": lambda call: bool(call.get("causal")),
    "window": lambda call: any(side >= 0 for side in call.get("window_size", ())),
    "chunk": lambda call: bool(call.get("attention_chunk")),
    "softcap": lambda call: bool(call.get("softcap")),
    "d96": lambda call: bool(call["q"].shape[-1] == 96),  # noqa: PLR2004 - a dimension between those of the kernels
    "unused-rows": lambda call: call.get("seqused_q") is not None,
    "pages": lambda call: call.get("page_table") is not None,
    "append": lambda call: call.get("k") is not None and "k_cache" in call,
    "rotary": lambda call: call.get("rotary_cos") is not None,
    "left-padding": lambda call: call.get("cache_leftpad") is not None,
    "batch-index": lambda call: call.get("cache_batch_idx") is not None,
    "packed-queries": lambda call: call.get("cu_seqlens_q") is not None and "k_cache" in call,
}
"""By name, which calls use the feature."""
BUGS = ("sound", "refuses", "elsewhere")
edits = _load("flashcore_defects_edits", "defects/edits.py")
"""Of Python code, by name."""


def build(root: pathlib.Path) -> dict[str, Any]:
    """Build the kernels of the sound subject."""
    whole = sound.build(root)
    return {**whole, "binding": [*whole["binding"], *FILES]}


def problem(params: Mapping[str, Any]) -> dict[str, Any]:
    """Name the kernels of the sound subject."""
    if params["defect"] not in {*FEATURES, *BUGS, *edits.EDITS}:
        raise ValueError(f"defect: must be one of {', '.join((*FEATURES, *BUGS, *edits.EDITS))}, is {params['defect']!r}")
    found: dict[str, Any] = sound.problem(params)
    return found


def cases(params: Mapping[str, Any], seed: int) -> list[tuple[str, list[str], Any]]:
    """List the cases of the sound subject, each with the defect."""
    return [(name, features, (params["defect"], case)) for name, features, case in sound.cases(params, seed)]


def run_case(case: Any) -> None:
    """Run a test on the functions with the defect."""
    defect, upstream = case
    tests = sound.load_tests()
    if defect in edits.EDITS:
        with edits.edit(defect):
            sound.run_case(upstream)
        return
    kept = {name: getattr(tests, name) for name in FUNCTIONS}
    try:
        for name, function in kept.items():
            setattr(tests, name, spoil(function, defect))
        sound.run_case(upstream)
    finally:
        vars(tests).update(kept)


def spoil(function: Any, defect: str) -> Any:
    """Return the function with the defect."""

    @functools.wraps(function)
    def spoiled(*arguments: Any, **options: Any) -> Any:
        call = inspect.signature(function).bind(*arguments, **options).arguments
        if defect == "refuses" and call.get("page_table") is not None:
            raise NotImplementedError("page_table: a planted refusal")
        if defect == "elsewhere" and "k_cache" not in call:
            return _compute_elsewhere(call)
        found = function(*arguments, **options)
        if defect in FEATURES and FEATURES[defect](call):
            out = found[0] if isinstance(found, tuple) else found
            out.detach().view(-1)[0] += NUDGE
        return found

    return spoiled


def _compute_elsewhere(call: Call) -> Any:
    """Compute dense attention with PyTorch, so that no kernel of FlashCore runs."""
    import torch

    q, k, v = (call[name].transpose(1, 2) for name in ("q", "k", "v"))
    hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    if call.get("causal"):
        hidden = hidden.tril(k.shape[2] - q.shape[2])
    if chunk := call.get("attention_chunk"):
        row = torch.arange(q.shape[2], device=q.device)[:, None] + k.shape[2] - q.shape[2]
        key = torch.arange(k.shape[2], device=q.device)
        hidden &= torch.div(row, chunk, rounding_mode="floor") == key // chunk
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden, enable_gqa=True)
    return out.nan_to_num(0.0).transpose(1, 2)
