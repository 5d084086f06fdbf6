"""PyTorch's operators for E4M3 reach FlashCore while the door is open, and PyTorch's own kernels before and after."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB
NAMES = ("_scaled_dot_product_flash_attention.quantized", "_flash_attention_forward.quantized")


@pytest.fixture
def door(kernels: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    import torch
    from flashcore.doors import sdpa

    aten = torch.ops.aten
    if "quantized" not in aten._flash_attention_forward.overloads():
        pytest.skip("this PyTorch has no operators for E4M3")
    previous: list[str] = []

    def scaled(q: Any, k: Any, *_rest: Any, **_options: Any) -> Any:
        previous.append(NAMES[0])
        lse = torch.zeros(q.shape[:3])
        return torch.zeros(q.shape, dtype=torch.bfloat16), lse, None, None, q.shape[2], k.shape[2], *sdpa._make_rest(lse)

    def forward(q: Any, *_rest: Any, **_options: Any) -> Any:
        previous.append(NAMES[1])
        lse = torch.zeros(q.shape[0], q.shape[2], q.shape[1])
        return torch.zeros(q.shape, dtype=torch.bfloat16), lse, *sdpa._make_rest(lse)

    monkeypatch.setattr(sdpa, "KEY", "CPU")
    library = torch.library.Library("aten", "IMPL")
    for name, function in zip(NAMES, (scaled, forward), strict=True):
        library.impl(name, function, "CPU")
    plain = torch.library.Library("aten", "IMPL")  # the door needs those of 16 bits too
    for name in sdpa.IMPLEMENTATIONS:
        if "." not in name and hasattr(aten, name):
            plain.impl(name, lambda *_arguments, **_options: None, "CPU")
    before = [torch._C._dispatch_dump_table(f"aten::{name}") for name in NAMES]
    yield SimpleNamespace(sdpa=sdpa, previous=previous, torch=torch, aten=aten, calls=kernels.calls, refused=kernels.refused)
    sdpa.deactivate()
    assert [torch._C._dispatch_dump_table(f"aten::{name}") for name in NAMES] == before
    library._destroy()
    plain._destroy()


def draw(door: SimpleNamespace, rows: int = 5, keys: int = 7) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    make = door.torch.randn
    tensors = (make(2, 4, rows, 16), make(2, 2, keys, 16), make(2, 2, keys, 16))
    scales = tuple(door.torch.rand(2, 2) + 0.5 for _ in range(3))
    return tuple(x.to(door.torch.float8_e4m3fn) for x in tensors), scales


def expect(door: SimpleNamespace, tensors: tuple[Any, ...], scales: tuple[Any, ...], mask: Any) -> Any:
    factors = [
        scale.repeat_interleave(x.shape[1] // 2, dim=1)[:, :, None, None] for x, scale in zip(tensors, scales, strict=True)
    ]
    rows = [x.float() * factor for x, factor in zip(tensors, factors, strict=True)]
    return door.torch.nn.functional.scaled_dot_product_attention(*rows, attn_mask=mask, enable_gqa=True)


def test_an_open_door_computes_e4m3_and_a_closed_one_does_not(door: SimpleNamespace) -> None:
    tensors, scales = draw(door)
    call = door.aten._scaled_dot_product_flash_attention.quantized
    call(*tensors, *scales, is_causal=True)
    assert (door.calls, door.previous) == ([], [NAMES[0]])
    door.sdpa.activate()
    out, lse, *_, max_q, max_k = call(*tensors, *scales, is_causal=True)[:6]
    assert (door.calls, len(door.previous)) == (["attention_e4m3"], 1)
    mask = door.torch.ones(5, 7, dtype=bool).tril(2)
    door.torch.testing.assert_close(out.float(), expect(door, tensors, scales, mask), rtol=1e-2, atol=1e-2)
    assert (out.dtype, lse.shape, max_q, max_k) == (door.torch.bfloat16, (2, 4, 5), 5, 7)
    door.sdpa.deactivate()
    call(*tensors, *scales)
    assert (len(door.calls), len(door.previous)) == (1, 2)


def test_the_forward_of_e4m3_is_served_and_packed_rows_are_left_to_pytorch(door: SimpleNamespace) -> None:
    tensors, scales = draw(door)
    rows = [x.transpose(1, 2) for x in tensors]
    door.sdpa.activate()
    call = door.aten._flash_attention_forward.quantized
    out, lse, *_ = call(*rows, None, None, 5, 7, 0.0, False, False, *scales)
    door.torch.testing.assert_close(out.transpose(1, 2).float(), expect(door, tensors, scales, None), rtol=1e-2, atol=1e-2)
    assert (lse.shape, door.previous) == ((2, 4, 5), [])
    starts = door.torch.tensor([0, 5], dtype=door.torch.int32)
    for options in ({"window_size_left": 3}, {"alibi_slopes": scales[0]}):
        call(*rows, None, None, 5, 7, 0.0, False, False, *scales, **options)
    call(*rows, starts, starts, 5, 7, 0.0, False, False, *scales)
    assert (door.calls, door.previous) == (["attention_e4m3"], [NAMES[1]] * 3)


@pytest.mark.parametrize("reason", ["dropout", "refused", "bf16"])
def test_what_is_refused_reaches_pytorchs_kernel(door: SimpleNamespace, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors, scales = draw(door)
    door.sdpa.activate()
    options = {"dropout_p": 0.5} if reason == "dropout" else {}
    if reason == "refused":
        door.refused["attention_e4m3"] = "q: is refused by the stand-in"
    if reason == "bf16":
        tensors = tuple(x.bfloat16() for x in tensors)
    call = door.aten._scaled_dot_product_flash_attention.quantized
    call(*tensors, *scales, **options)
    assert door.previous == [NAMES[0]]
    monkeypatch.setenv("FLASHCORE_STRICT", "1")
    with pytest.raises((NotImplementedError, RuntimeError)):
        call(*tensors, *scales, **options)
    assert door.previous == [NAMES[0]]


def test_factors_may_be_left_out(door: SimpleNamespace) -> None:
    tensors, _ = draw(door)
    door.sdpa.activate()
    out = door.aten._scaled_dot_product_flash_attention.quantized(*tensors, None, None, None)[0]
    ones = tuple(door.torch.ones(2, 2) for _ in range(3))
    door.torch.testing.assert_close(out.float(), expect(door, tensors, ones, None), rtol=1e-2, atol=1e-2)


def test_a_pytorch_without_kernels_for_e4m3_keeps_the_rest_of_the_door(
    door: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = door.torch.library.get_kernel

    def find(name: str, key: str) -> Any:
        if name.endswith(".quantized"):
            raise RuntimeError(f"no kernel for {key}")
        return get(name, key)

    monkeypatch.setattr(door.torch.library, "get_kernel", find)
    assert [door.sdpa._find_kernel(name) for name in NAMES] == [None, None]
    assert door.sdpa._find_kernel("_flash_attention_forward") is not None
    assert door.sdpa._find_kernel("no_such_operator") is None
