"""Windows, chunks, caps and sinks in the launch: what the plain kernels serve goes there, the rest to the local ones."""

from __future__ import annotations

from typing import Any

import pytest
import standin_torch as torch

Q, K = torch.empty(3, 30, 4, 64), torch.empty(3, 100, 2, 64)
SINKS, BF16_SINKS = torch.empty(4, dtype=torch.float32), torch.empty(4, dtype=torch.bfloat16)
COUNTER = torch.empty(1, dtype=torch.int32)


def get_local(call: Any) -> tuple[Any, ...]:
    local = call.local
    return local.enabled, local.window_left, local.window_right, local.chunk, local.softcap, local.sinks_dtype


@pytest.mark.parametrize(
    ("options", "causal"),
    [
        ({}, 0),
        ({"window_size": (-1, 0)}, 1),
        ({"window_size": [99, 0]}, 1),
        ({"window_size": (99, 29)}, 0),
        ({"window_size": (5000, -1), "causal": True}, 1),
        ({"window_size": (-1, 7), "causal": True}, 1),
        ({"softcap": 0, "attention_chunk": 0, "window_size": (-7, -2)}, 0),
    ],
)
def test_what_a_plain_kernel_serves_goes_there(bindings: Any, options: dict[str, Any], causal: int) -> None:
    bindings.flashcore.flash_attn_func(Q, K, K, **options)
    ((_, call),) = bindings.kernels.calls
    assert (call.causal, call.local.enabled) == (causal, 0)


@pytest.mark.parametrize(
    ("options", "local"),
    [
        ({"window_size": (98, 0)}, (1, 98, 0, 0, 0.0, 0)),
        ({"window_size": (98, 40), "causal": True}, (1, 98, 0, 0, 0.0, 0)),
        ({"window_size": (-1, 28)}, (1, -1, 28, 0, 0.0, 0)),
        ({"attention_chunk": 64}, (1, -1, -1, 64, 0.0, 0)),
        ({"softcap": 30.0, "causal": True}, (1, -1, 0, 0, 30.0, 0)),
        ({"sinks": SINKS}, (1, -1, -1, 0, 0.0, 0)),
        ({"sinks": BF16_SINKS, "window_size": (0, 0)}, (1, 0, 0, 0, 0.0, 1)),
    ],
)
def test_the_rest_goes_to_a_local_kernel(bindings: Any, options: dict[str, Any], local: tuple[Any, ...]) -> None:
    bindings.flashcore.flash_attn_func(Q, K, K, **options)
    ((_, call),) = bindings.kernels.calls
    assert (call.causal, get_local(call)) == (0, local)
    assert call.sinks == (options["sinks"].address if "sinks" in options else None)


def test_decode_takes_the_same(bindings: Any) -> None:
    bindings.flashcore.flash_attn_with_kvcache(torch.empty(3, 2, 4, 64), K, K, window_size=(9, 0), sinks=SINKS)
    bindings.flashcore.decode(torch.empty(3, 2, 4, 64), K, K, window=(9, 3), causal=True, loaded_tiles=COUNTER)
    (_, first), (_, second) = bindings.kernels.calls
    assert (get_local(first), first.sinks) == ((1, 9, 0, 0, 0.0, 0), SINKS.address)
    assert (get_local(second), second.loaded_tiles) == ((1, 9, 0, 0, 0.0, 0), COUNTER.address)


def test_a_counter_alone_asks_for_a_local_kernel(bindings: Any) -> None:
    bindings.flashcore.attention(Q, K, K, causal=True, loaded_tiles=COUNTER)
    ((_, call),) = bindings.kernels.calls
    assert (get_local(call), call.loaded_tiles) == ((1, -1, 0, 0, 0.0, 0), COUNTER.address)


@pytest.mark.parametrize("sinks", [torch.empty(3, dtype=torch.float32), torch.empty(2, 2, dtype=torch.float32)])
def test_sinks_have_one_logit_per_query_head(bindings: Any, sinks: Any) -> None:
    with pytest.raises(ValueError, match=r"^sinks: "):
        bindings.flashcore.attention(Q, K, K, sinks=sinks)


class Sides(list[int]):
    """A window as one tensor, which has no truth value."""

    def __bool__(self) -> bool:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")


@pytest.mark.parametrize(
    ("options", "own"),
    [
        ({}, False),
        ({"window_size": Sides([98, -1])}, True),
        ({"window_size": Sides([-1, -1])}, False),
        ({"softcap": 30.0, "sinks": SINKS}, False),
        ({"window_size": (99, 1)}, False),
        ({"causal": True}, True),
        ({"window_size": [98, -1]}, True),
        ({"window_size": (-1, 0)}, True),
        ({"attention_chunk": 64}, True),
    ],
)
def test_rotated_queries_have_positions_of_their_own_under_a_mask(
    bindings: Any, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], own: bool
) -> None:
    seen = []

    def rotate(q: Any, k: Any, *_tables: Any, causal: bool, **_options: Any) -> tuple[Any, Any]:
        seen.append(causal)
        return q, k

    monkeypatch.setitem(bindings.flashcore.flash_attn_with_kvcache.__globals__, "rotate", rotate)
    new, lengths = torch.empty(3, 2, 2, 64), torch.empty(3, dtype=torch.int32)
    q, table = torch.empty(3, 2, 4, 64), torch.empty(9, 16)
    bindings.flashcore.flash_attn_with_kvcache(
        q, K, K, new, new, rotary_cos=table, rotary_sin=table, cache_seqlens=lengths, **options
    )
    assert seen == [own]
    assert len(bindings.kernels.calls) == 1
