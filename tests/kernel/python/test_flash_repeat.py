"""A call over a cache that is like an earlier one repeats its launch. Everything else takes the way with all checks."""

from __future__ import annotations

from typing import Any

import pytest
import standin_torch as torch

LENGTHS = torch.empty(3, dtype=torch.int32)
NEW = {"k": torch.empty(3, 5, 2, 64), "v": torch.empty(3, 5, 2, 64)}


def name(value: Any) -> str:
    """Name a parameter of a test without addresses, which differ between processes."""
    return "-".join(value) if isinstance(value, dict) else getattr(value, "__name__", str(value))


def call(bindings: Any, **changes: Any) -> Any:
    """Call with new tensors, and return the last launch."""
    q, cache = torch.empty(3, 1, 4, 64), torch.empty(3, 100, 2, 64)
    bindings.flashcore.flash_attn_with_kvcache(q, cache, cache, **{"cache_seqlens": LENGTHS, **changes})
    function, arguments = bindings.kernels.calls[-1]
    assert function != "flashcore_decode" or (arguments.q.data, arguments.k.data) == (q.address, cache.address)
    return arguments


@pytest.mark.parametrize("options", [{}, {"causal": True, "return_softmax_lse": True, "num_splits": 2}, NEW], ids=name)
def test_the_second_call_prepares_nothing(bindings: Any, monkeypatch: pytest.MonkeyPatch, options: Any) -> None:
    from flashcore import _decode, _kvcache

    first = call(bindings, **options)
    for owner, part in ((_decode._ENTRY, "prepare"), (_kvcache, "attend_to_cache")):
        monkeypatch.setattr(owner, part, None)
    second = call(bindings, **options)
    assert (second.causal, second.splits, second.new_keys) == (first.causal, first.splits, first.new_keys)
    assert len(bindings.kernels.calls) == 2


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"causal": True}, lambda a: a.causal == 1),
        ({"softmax_scale": 0.5}, lambda a: a.scale == 0.5),
        ({"num_splits": 3}, lambda a: a.splits == 3),
        ({"sm_margin": 2}, lambda a: a.max_ctas == 130),
        ({"window_size": (5, 0)}, lambda a: a.local.window_left == 5),
        ({"window_size": [5, 0]}, lambda a: a.local.window_left == 5),
        ({"attention_chunk": 8}, lambda a: a.local.chunk == 8),
        ({"softcap": 2.0}, lambda a: a.local.softcap == 2.0),
        ({"sinks": torch.empty(4, dtype=torch.float32)}, lambda a: a.local.enabled == 1 and a.sinks),
        ({"cache_seqlens": 40}, lambda a: a.capacity == 40),
        ({"cache_seqlens": None}, lambda a: not a.lengths),
    ],
    ids=name,
)
def test_another_call_is_prepared(bindings: Any, changes: Any, seen: Any) -> None:
    call(bindings)
    assert not seen(bindings.kernels.calls[-1][1])
    for _ in range(2):
        assert seen(call(bindings, **changes))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"qv": LENGTHS}, NotImplementedError, "^qv: "),
        ({**NEW, "cache_seqlens": None}, ValueError, "^cache_seqlens: is None with new keys"),
        ({"window_size": (1, 2, 3)}, ValueError, "^window: "),
        ({"q_descale": LENGTHS}, ValueError, "^q_scale: "),
    ],
    ids=name,
)
def test_a_refusal_stays_one(bindings: Any, changes: Any, error: type[Exception], message: str) -> None:
    q, cache = torch.empty(3, 1, 4, 64), torch.empty(3, 100, 2, 64)
    bindings.flashcore.decode(q, cache, cache, k_new=NEW["k"], v_new=NEW["v"])  # may leave the lengths out
    call(bindings)
    count = len(bindings.kernels.calls)
    for _ in range(2):
        with pytest.raises(error, match=message):
            call(bindings, **changes)
    assert len(bindings.kernels.calls) == count
