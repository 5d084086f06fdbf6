"""Doors that are opened twice, closed and opened again, on a Hopper GPU. A closed door restores the kernel that ran before."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
from operator_cases import draw
from test_doors import exactly, make_model

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

ATTENTION = ("flash", "fmha", "attention", "sdpa", "cudnn")
"""Words in the names of attention kernels, ours and those of others."""


def find_kernels(function: Callable[[], Any]) -> tuple[Any, set[str]]:
    """Return the result, and the attention kernels that ran."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as measured:
        result = function()
        torch.cuda.synchronize()
    return result, {event.key for event in measured.key_averages() if any(word in event.key.lower() for word in ATTENTION)}


def check_door(call: Callable[[], Any], open_door: Callable[[], Any], close_door: Callable[[], Any]) -> None:
    """Check that only FlashCore's kernels run while the door is open, and the ones of before when it is closed."""
    import torch

    call()
    expected, before = find_kernels(call)
    assert before
    assert not any("flashcore" in name for name in before)
    for _ in range(2):
        open_door()
        open_door()
        actual, names = find_kernels(call)
        assert names
        assert all("flashcore" in name for name in names), names
        assert (actual - expected).abs().max() <= 0.05 * expected.abs().max()
        close_door()
        restored, after = find_kernels(call)
        assert after == before
        torch.testing.assert_close(restored, expected)


def test_pytorchs_sdpa() -> None:
    import torch
    from flashcore.doors import sdpa

    q, k, v = (draw(2, 8, 300, 128, seed=i) for i in range(3))
    check_door(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), sdpa.activate, sdpa.deactivate)


def test_pytorchs_packed_sequences() -> None:
    import torch
    from flashcore.doors import sdpa
    from torch.nn.attention.varlen import varlen_attn

    starts = torch.tensor([0, 100, 300], dtype=torch.int32, device="cuda")
    q, k, v = (draw(300, 8, 128, seed=i) for i in range(3))
    check_door(lambda: varlen_attn(q, k, v, starts, starts, 200, 200, window_size=(-1, 0)), sdpa.activate, sdpa.deactivate)


@pytest.mark.parametrize("name", ["flashcore", "flashcore/fa3"])
def test_a_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Transformers' own door, or by a folder of the kernels hub. Another attention closes it."""
    pytest.importorskip("transformers")
    if name == "flashcore/fa3" and importlib.util.find_spec("kernels") is None:
        pytest.skip("install kernels==0.16.0")
    import end_to_end
    import torch
    from flashcore.doors import transformers as door

    monkeypatch.setenv("LOCAL_KERNELS", f"flashcore/fa3={end_to_end.ROOT / 'kernel/hub/build/torch-cuda'}")
    model, ids = make_model(128), torch.randint(2, 997, (3, 100), device="cuda")

    def call() -> Any:
        with torch.no_grad():
            return model(ids).logits

    def open_door() -> None:
        if name == "flashcore":
            door.register()
        model.set_attn_implementation(name)

    def close_door() -> None:
        if name == "flashcore":
            door.unregister()
            with pytest.raises(KeyError, match="flashcore"):
                call()
        model.set_attn_implementation("sdpa")

    try:
        check_door(call, open_door, close_door)
    finally:
        door.unregister()


def test_xformers() -> None:
    """Without a door xformers may have no kernel for this PyTorch. So what it would choose counts too."""
    if importlib.util.find_spec("xformers") is None:
        pytest.skip("install xformers==0.0.35 without its dependencies")
    import torch
    from flashcore.doors import xformers as door

    door.register()
    from xformers import _cpp_lib
    from xformers.ops import LowerTriangularMask, memory_efficient_attention
    from xformers.ops.fmha import dispatch, flash3
    from xformers.ops.fmha.common import Inputs

    if not _cpp_lib._built_with_cuda:
        pytest.skip(
            "xformers has no CUDA extension here and refuses every kernel: its wheel needs libcudart.so.12 in LD_LIBRARY_PATH"
        )
    q, k, v = (draw(2, 300, 8, 128, seed=i) for i in range(3))
    exact = exactly(*(tensor.transpose(1, 2) for tensor in (q, k, v)), is_causal=True).transpose(1, 2)
    mask = LowerTriangularMask()

    def call() -> Any:
        return memory_efficient_attention(q, k, v, attn_bias=mask)

    def is_first() -> bool:
        return dispatch._dispatch_fw_priority_list(Inputs(q, k, v, mask), needs_gradient=False)[0] is flash3.FwOp

    for _ in range(2):
        door.register()
        door.register()
        assert is_first()
        out, names = find_kernels(call)
        assert names
        assert all("flashcore" in name for name in names), names
        assert (out - exact).abs().max() < 2e-2
        door.unregister()
        assert not is_first()
        try:
            out, names = find_kernels(call)
        except NotImplementedError:
            torch.cuda.synchronize()
            continue
        assert not any("flashcore" in name for name in names), names
        assert (out - exact).abs().max() < 2e-2
