"""The Triton kernel on a GPU: its values, and that it serves what the Hopper kernels refuse."""

from __future__ import annotations

from typing import Any

import pytest
from cache_cases import FEATURES, Case
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
    {}, {"causal": True}, {"window": (64, 0), "causal": True}, {"window": (40, 30)}, {"softcap": 5.0, "causal": True}, {"sinks": True},
    {"chunk": 50}, {"chunk": 200, "window": (90, 7)},
]  # fmt: skip


def compute_exactly(
    q: Any, k: Any, v: Any, *, causal: bool = False, window: Any = (-1, -1), softcap: float = 0.0, sinks: Any = None, chunk: int = 0
) -> Any:  # fmt: skip
    import torch

    q, k, v = (tensor.double().transpose(1, 2) for tensor in (q, k, v))
    k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], 1) for tensor in (k, v))
    s = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    s = softcap * torch.tanh(s / softcap) if softcap else s
    rows, keys = s.shape[-2:]
    i, j = torch.arange(rows, device="cuda")[:, None] + keys - rows, torch.arange(keys, device="cuda")
    left, right = window[0], 0 if causal else window[1]
    seen = (True if left < 0 else j >= i - left) & (True if right < 0 else j <= i + right) & (j >= 0)
    if chunk:
        seen = seen & (i >= 0) & (i.div(chunk, rounding_mode="floor") == j // chunk)
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


LARGE = ["pages index append rotary causal", "e4m3 packed append rotary causal", "e4m3 queries pages packed chunk"]


@pytest.mark.parametrize(
    ("features", "dtype", "d"),
    [*((each, "bfloat16", 64) for each in FEATURES), *((each, *kind) for each in LARGE for kind in (("float16", 128), ("bfloat16", 256)))],
)  # fmt: skip
def test_calls_over_a_cache(features: str, dtype: str, d: int) -> None:
    from flashcore.doors import fallback

    case = Case(features, dtype, d, "cuda")
    arguments, options = case.make_arguments()
    (out, lse), names = run(lambda: fallback.call("flash_attn_with_kvcache", arguments, options))
    assert names == {"triton"}
    tolerance = 2e-2 if dtype == "bfloat16" else 4e-3
    case.check(out, lse, arguments[1:], 4e-2 if "queries" in features else 2 * tolerance if "e4m3" in features else tolerance)


@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
@pytest.mark.parametrize("options", [{"causal": True}, {"chunk": 130}, {"window": (40, 30)}], ids=str)
def test_queries_keys_and_values_of_e4m3(shape: Any, options: Any) -> None:
    import torch
    from flashcore.doors import fallback

    batch, rows, keys, heads, kv_heads, d = shape
    sizes = ((rows, heads), (keys, kv_heads), (keys, kv_heads))
    tensors = [draw(batch, s, h, d, seed=i).to(torch.float8_e4m3fn) for i, (s, h) in enumerate(sizes)]
    factors = [torch.rand(batch, kv_heads, device="cuda") + 0.5 for _ in range(3)]
    public = {"chunk": "attention_chunk", "window": "window_size"}
    given = {public.get(name, name): value for name, value in options.items()}
    descales = dict(zip(("q_descale", "k_descale", "v_descale"), factors, strict=True))
    (out, lse), names = run(
        lambda: fallback.call("flash_attn_func", tuple(tensors), {**given, **descales, "return_attn_probs": True})
    )
    assert names == {"triton"}
    spread = (factors[0].repeat_interleave(heads // kv_heads, 1), *factors[1:])
    exact, exact_lse = compute_exactly(
        *(tensor.double() * factor[:, None, :, None] for tensor, factor in zip(tensors, spread, strict=True)), **options
    )
    assert (out - exact).abs().max() < 2.5e-2
    torch.testing.assert_close(lse.double(), exact_lse, rtol=2e-3, atol=2e-3)
