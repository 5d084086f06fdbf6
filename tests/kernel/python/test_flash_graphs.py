"""FlashAttention-3's functions in a graph and with a gradient: they call the operators, with the same launch."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import standin_torch as torch

PREFILLS = ("flash_attn_func", "flash_attn_varlen_func")
LENGTHS, STARTS = torch.empty(3, dtype=torch.int32), torch.empty(4, dtype=torch.int32)
KEYS, ROWS = torch.empty(3, 100, 2, 64), torch.empty(90, 2, 64)
ARGUMENTS: dict[str, dict[str, Any]] = {
    "flash_attn_func": {"q": torch.empty(3, 20, 4, 64), "k": KEYS, "v": KEYS},
    "flash_attn_varlen_func": {
        "q": torch.empty(50, 4, 64), "k": ROWS, "v": ROWS,
        "cu_seqlens_q": STARTS, "cu_seqlens_k": STARTS, "max_seqlen_q": 30, "max_seqlen_k": 40,
    },
    "flash_attn_with_kvcache": {"q": torch.empty(3, 1, 4, 64), "k_cache": KEYS, "v_cache": KEYS},
}  # fmt: skip


@pytest.mark.parametrize("name", ["flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"])
def test_a_graph_holds_the_operator_with_the_same_launch(bindings: Any, name: str) -> None:
    """The operator of the stand-in is its kernel, so both calls end in the same structure, but for the log-sum-exp."""
    arguments = {**ARGUMENTS[name], "causal": True, "softmax_scale": 0.5, "sm_margin": 2}
    if name == "flash_attn_with_kvcache":
        arguments["cache_seqlens"] = LENGTHS
    launches = []
    for compiling in (False, True):
        torch.state.compiling = compiling
        out = getattr(bindings.flashcore, name)(**arguments)
        assert isinstance(out, torch.Tensor)
        function, structure = bindings.kernels.calls[-1]
        launches.append((function, {field: getattr(structure, field) for field in ("causal", "scale", "max_ctas", "batch")}))
        assert bool(structure.lse) is compiling
    assert launches[0] == launches[1]


def test_an_append_in_a_graph_needs_a_tensor_of_lengths(bindings: Any) -> None:
    torch.state.compiling = True
    new = {name: torch.empty(3, 1, 2, 64) for name in "kv"}
    bindings.flashcore.flash_attn_with_kvcache(**ARGUMENTS["flash_attn_with_kvcache"], **new, cache_seqlens=7)
    function, structure = bindings.kernels.calls[-1]
    assert (function, structure.new_keys, bool(structure.lengths)) == ("flashcore_decode", 1, True)


@pytest.mark.parametrize("name", PREFILLS)
def test_a_required_gradient_goes_to_the_operator(bindings: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(sys.modules["flashcore.ops"], "FWD", lambda *arguments: called.append(arguments) or ("out", "lse"))
    arguments = {**ARGUMENTS[name]}
    arguments["k"] = torch.Tensor(arguments["k"].shape, arguments["k"].strides, requires_grad=True)
    assert getattr(bindings.flashcore, name)(**arguments, return_attn_probs=True) == ("out", "lse")
    assert len(called[0]) == 3 + len(sys.modules["flashcore.ops"].OPTIONAL_TENSORS) + 11


REFUSED = {
    **dict.fromkeys(("seqused_q", "seqused_k", "page_table", "q_descale", "k_descale", "v_descale", "sinks"), LENGTHS),
    "attention_chunk": 8, "softcap": 15.0,
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_backward_names_what_has_no_gradient(bindings: Any, name: str) -> None:
    """tests/kernel/torch/test_refused_gradients.py asks the same of PyTorch's autograd."""
    ops = importlib.import_module("flashcore.ops")
    names = (*ops.OPTIONAL_TENSORS, *["max_seqlen_q"] * 8, "attention_chunk", "softcap", "sinks")
    rest = tuple(REFUSED[name] if key == name else default for key, default in zip(names, ops._DEFAULTS, strict=True))
    context = SimpleNamespace(save_for_backward=lambda *_: None, mark_non_differentiable=lambda _: None)
    ops._setup_context(context, (KEYS, KEYS, KEYS, *rest), (KEYS, LENGTHS))
    with pytest.raises(NotImplementedError, match=f"^{name}: FlashCore computes no gradient with it"):
        ops._backward(context, KEYS, None)
