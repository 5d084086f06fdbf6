"""PyTorch's operators reach FlashCore while the door is open, and PyTorch's own kernels before and after."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.nightly  # torch is 200 MB

NAMES = ("_scaled_dot_product_flash_attention", "_flash_attention_forward", "_flash_attention_forward_no_dropout_inplace")


@pytest.fixture
def door(kernels: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The door on the CPU, over a stand-in for PyTorch's kernels that asks its own operator again, as the real one does."""
    import torch
    from flashcore.doors import sdpa

    previous: list[str] = []
    aten = torch.ops.aten
    names = [name for name in NAMES if hasattr(aten, name)]

    def scaled(
        q: Any, k: Any, v: Any, dropout_p: float = 0.0, is_causal: bool = False, debug: bool = False, *, scale: Any = None
    ) -> Any:
        previous.append(names[0])
        rows = [t.transpose(1, 2) for t in (q, k, v)]
        out, lse, *rest = aten._flash_attention_forward(
            *rows, None, None, q.shape[2], k.shape[2], dropout_p, is_causal, debug, scale=scale
        )
        return out.transpose(1, 2), lse, None, None, q.shape[2], k.shape[2], *rest

    def forward(q: Any, *_rest: Any, **_options: Any) -> Any:
        previous.append(names[1])
        return torch.zeros_like(q), q.new_zeros(q.shape[0], q.shape[2], q.shape[1]), *sdpa._make_rest(q)

    def in_place(out: Any, *_rest: Any, **_options: Any) -> Any:
        previous.append(names[2])
        return out.new_zeros(1)

    monkeypatch.setattr(sdpa, "KEY", "CPU")
    library = torch.library.Library("aten", "IMPL")
    for name, function in zip(names, (scaled, forward, in_place), strict=False):
        library.impl(name, function, "CPU")
    before = [torch._C._dispatch_dump_table(f"aten::{name}") for name in names], torch._C._get_sdp_priority_order()
    yield SimpleNamespace(sdpa=sdpa, previous=previous, torch=torch, aten=aten, calls=kernels.calls, refused=kernels.refused)
    sdpa.deactivate()
    assert ([torch._C._dispatch_dump_table(f"aten::{name}") for name in names], torch._C._get_sdp_priority_order()) == before
    library._destroy()


def draw(door: SimpleNamespace, rows: int = 5, keys: int = 5) -> tuple[Any, Any, Any]:
    make = door.torch.randn
    return make(2, 4, rows, 16), make(2, 2, keys, 16), make(2, 2, keys, 16)


def expect(door: SimpleNamespace, q: Any, k: Any, v: Any, mask: Any) -> Any:
    return door.torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


@pytest.mark.parametrize("rows", [5, 3])
def test_an_open_door_computes_and_a_closed_one_does_not(door: SimpleNamespace, rows: int) -> None:
    q, k, v = draw(door, rows)
    call = door.aten._scaled_dot_product_flash_attention
    call(q, k, v, is_causal=True)
    assert (door.calls, len(door.previous)) == ([], 2)
    door.sdpa.activate()
    out, lse, *_, max_q, max_k = call(q, k, v, is_causal=True)[:6]
    assert (door.calls, len(door.previous)) == (["attention"], 2)
    mask = door.torch.ones(rows, 5, dtype=bool).tril(5 - rows)  # the operator is aligned bottom right
    door.torch.testing.assert_close(out, expect(door, q, k, v, mask))
    assert (out.stride(), lse.shape, max_q, max_k) == (q.stride(), (2, 4, rows), rows, 5)
    door.sdpa.deactivate()
    call(q, k, v, is_causal=True)
    assert (len(door.calls), len(door.previous)) == (1, 4)


def test_the_output_has_the_querys_strides(door: SimpleNamespace) -> None:
    q, k, v = (tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in draw(door))
    door.sdpa.activate()
    assert door.aten._scaled_dot_product_flash_attention(q, k, v)[0].stride() == q.stride()


def test_activating_twice_and_by_torchs_function_works(door: SimpleNamespace) -> None:
    registry = door.torch.nn.attention
    q, k, v = draw(door)
    door.sdpa.activate()
    registry.activate_flash_attention_impl("flashcore")
    door.aten._scaled_dot_product_flash_attention(q, k, v)
    assert (door.calls, door.previous, registry.current_flash_attention_impl()) == (["attention"], [], "flashcore")
    registry.restore_flash_attention_impl()
    door.aten._scaled_dot_product_flash_attention(q, k, v)
    assert len(door.calls) == 1


def test_flash_attention_is_preferred_while_the_door_is_open(door: SimpleNamespace) -> None:
    order = door.torch._C._get_sdp_priority_order
    before, flash = order(), int(door.torch.nn.attention.SDPBackend.FLASH_ATTENTION)
    door.torch._C._set_sdp_priority_order([3, 1, 2, 0, 4])  # as PyTorch sets it on Hopper
    door.sdpa.activate()
    door.sdpa.activate()
    assert order() == [flash, 3, *[backend for backend in (2, 0, 4) if backend != flash]]
    door.sdpa.deactivate()
    assert order() == [3, 1, 2, 0, 4]
    door.torch._C._set_sdp_priority_order(before)


@pytest.mark.parametrize("argument", [{"dropout_p": 0.5}, {"return_debug_mask": True}, {}])
def test_a_refusal_reaches_the_previous_kernel_once(
    door: SimpleNamespace, argument: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The previous kernel asks the second operator, which the door has too: the call must end there."""
    q, k, v = draw(door)
    door.sdpa.activate()
    if not argument:
        door.refused["attention"] = "q: is refused by the stand-in"
    with caplog.at_level(logging.INFO, "flashcore"):
        for _ in range(3):
            door.aten._scaled_dot_product_flash_attention(q, k, v, **argument)
    assert (door.calls, door.previous) == ([], list(NAMES[:2]) * 3)
    name = next(iter(argument), "q")
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["torch SDPA"]
    assert f"PyTorch's kernel, because FlashCore refused: {name}: " in caplog.text


def test_strict_mode_refuses_instead(door: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = draw(door)
    door.sdpa.activate()
    monkeypatch.setenv("FLASHCORE_STRICT", "1")
    door.aten._scaled_dot_product_flash_attention(q, k, v)
    door.refused["attention"] = "q: is refused by the stand-in"
    with pytest.raises((NotImplementedError, RuntimeError), match="q: is refused by the stand-in"):
        door.aten._scaled_dot_product_flash_attention(q, k, v)
    with pytest.raises((NotImplementedError, RuntimeError), match="dropout_p: FlashCore has no kernel"):
        door.aten._scaled_dot_product_flash_attention(q, k, v, 0.5)
    assert door.previous == []


def test_packed_sequences_and_windows_are_served(door: SimpleNamespace) -> None:
    torch = door.torch
    q, k, v = torch.randn(9, 4, 16), torch.randn(9, 2, 16), torch.randn(9, 2, 16)
    starts = torch.tensor([0, 4, 9], dtype=torch.int32)
    door.sdpa.activate()
    out, lse, *_ = door.aten._flash_attention_forward(
        q, k, v, starts, starts, 5, 5, 0.0, True, False, window_size_left=2, window_size_right=0
    )
    for rows in (slice(0, 4), slice(4, 9)):
        n = rows.stop - rows.start
        mask = torch.ones(n, n, dtype=bool).tril().triu(-2)
        own = (t[rows].transpose(0, 1)[None] for t in (q, k, v))
        torch.testing.assert_close(out[rows].transpose(0, 1)[None], expect(door, *own, mask))
    assert (door.calls, lse.shape) == (["attention_varlen"], (4, 9))
    door.aten._flash_attention_forward(q[None], k[None], v[None], None, None, 9, 9, 0.0, True, False, alibi_slopes=q[0, 0])
    assert door.previous == [NAMES[1]]


def test_pytorchs_function_for_packed_sequences_is_served(door: SimpleNamespace) -> None:
    """From PyTorch 2.11 on it has no ``is_causal``. A window of (-1, 0) is causal."""
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    torch = door.torch
    q, k, v = (torch.randn(9, 4, 16) for _ in range(3))
    starts = torch.tensor([0, 4, 9], dtype=torch.int32)
    call = lambda: varlen_attn(q, k, v, starts, starts, 5, 5, window_size=(-1, 0), return_aux=AuxRequest(lse=True))  # noqa: E731
    call()
    assert (door.calls, door.previous) == ([], [NAMES[1]])
    door.sdpa.activate()
    out, lse = call()
    assert (door.calls, door.previous, lse.shape) == (["attention_varlen"], [NAMES[1]], (4, 9))
    for rows in (slice(0, 4), slice(4, 9)):
        own = (t[rows].transpose(0, 1)[None] for t in (q, k, v))
        mask = torch.ones(rows.stop - rows.start, rows.stop - rows.start, dtype=bool).tril()
        torch.testing.assert_close(out[rows].transpose(0, 1)[None], expect(door, *own, mask))


def test_rows_without_keys_get_what_pytorchs_backward_expects(door: SimpleNamespace) -> None:
    q, k, v = draw(door, rows=7)
    door.sdpa.activate()
    lse = door.aten._scaled_dot_product_flash_attention(q, k, v, is_causal=True)[1]
    assert door.torch.isposinf(lse[:, :, :2]).all()
    assert door.torch.isfinite(lse[:, :, 2:]).all()


def test_the_operator_that_writes_into_out(door: SimpleNamespace) -> None:
    if not hasattr(door.aten, NAMES[2]):
        pytest.skip("PyTorch has no such operator before 2.13")
    q, k, v = (tensor.transpose(1, 2) for tensor in draw(door))
    out = door.torch.empty_like(q)
    door.sdpa.activate()
    lse = door.aten._flash_attention_forward_no_dropout_inplace(out, q, k, v, None, None, 5, 5, 0.0, False, False)
    door.torch.testing.assert_close(out.transpose(1, 2), expect(door, *(t.transpose(1, 2) for t in (q, k, v)), None))
    assert lse.shape == (2, 4, 5)
