"""The Triton kernel on a GPU: its values, and that it serves what the Hopper kernels refuse."""

from __future__ import annotations

from typing import Any

import pytest
from operator_cases import draw
from test_doors import run

pytestmark = pytest.mark.gpu

SHAPES = [
    (2, 300, 300, 8, 2, 128),
    (1, 257, 500, 4, 4, 64),
    (2, 40, 300, 4, 1, 256),
    (3, 5, 1000, 8, 2, 128),
    (1, 200, 90, 4, 4, 80),
]
OPTIONS = [
    {}, {"causal": True}, {"window": (64, 0), "causal": True}, {"window": (40, 30)}, {"softcap": 5.0, "causal": True}, {"sinks": True}
]  # fmt: skip


def compute_exactly(
    q: Any, k: Any, v: Any, *, causal: bool = False, window: Any = (-1, -1), softcap: float = 0.0, sinks: Any = None
) -> Any:
    import torch

    q, k, v = (tensor.double().transpose(1, 2) for tensor in (q, k, v))
    k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], 1) for tensor in (k, v))
    s = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    s = softcap * torch.tanh(s / softcap) if softcap else s
    rows, keys = s.shape[-2:]
    i, j = torch.arange(rows, device="cuda")[:, None] + keys - rows, torch.arange(keys, device="cuda")
    left, right = window[0], 0 if causal else window[1]
    seen = (True if left < 0 else j >= i - left) & (True if right < 0 else j <= i + right) & (j >= 0)
    s = s.masked_fill(~seen, -torch.inf)
    if sinks is not None:
        s = torch.cat((s, sinks.double()[None, :, None, None].expand(*s.shape[:3], 1)), -1)
    p = torch.softmax(s, -1).nan_to_num(0.0)
    return (p[..., :keys] @ v).transpose(1, 2), torch.logsumexp(s, -1)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_values(shape: Any, options: Any, dtype: str) -> None:
    import torch
    from flashcore.doors import fallback

    batch, rows, keys, heads, kv_heads, d = shape
    kind = getattr(torch, dtype)
    q, k, v = (
        draw(batch, s, h, d, seed=i, dtype=kind) for i, (s, h) in enumerate(((rows, heads), (keys, kv_heads), (keys, kv_heads)))
    )
    options = {**options, "sinks": torch.randn(heads, device="cuda")} if "sinks" in options else options
    (out, lse), names = run(lambda: fallback.call("attention", (q, k, v), {**options, "return_lse": True}))
    assert names == {"triton"}
    exact, exact_lse = compute_exactly(q, k, v, **options)
    tolerance = 2e-3 if dtype == "float16" else 1.6e-2
    assert (out - exact).abs().max() < tolerance
    torch.testing.assert_close(lse.double(), exact_lse, rtol=1e-3, atol=1e-3)


def test_it_serves_what_the_hopper_kernels_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows whose distance is not a multiple of 16 bytes."""
    import torch
    from flashcore.doors import choice, functions

    monkeypatch.delenv("FLASHCORE_STRICT", raising=False)
    q, k, v = (draw(2, 64, 4, 66, seed=i)[..., :64] for i in range(3))
    out, names = run(lambda: functions.flash_attn_func(q, k, v, causal=True))
    assert names == {"triton"}
    assert (out - compute_exactly(q, k, v, causal=True)[0]).abs().max() < 1.6e-2
    monkeypatch.setenv("FLASHCORE_STRICT", "1")
    with pytest.raises(choice.RefusalError):
        functions.flash_attn_func(q, k, v, causal=True)
    assert torch.equal(
        functions.flash_attn_func(*(t.contiguous() for t in (q, k, v))).isfinite().all(), torch.tensor(True, device="cuda")
    )
