"""Calls of every entry point with the same tensors on any GPU: prefill, packed, paged, decode, append, merge, E4M3, rounding, operators."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

HOLD_CYCLES = 10_000_000  # about 5 ms, longer than a launch takes on the host
LENGTHS, CAPACITY = (700, 129, 1), 768


@functools.cache
def draw(shape: tuple[int, ...], dtype: Any, seed: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


class Maker:
    """Makes the same tensors on any GPU.

    - ``held``: the tensor's stream waits, and writes only then. Before, floats are NaN and whole numbers are 0.
    - ``stray``: put the second tensor there.
    """

    def __init__(self, device: str, *, held: bool = False, stray: str = "") -> None:
        self.device, self.held, self.stray = device, held, stray
        self.made = 0

    def __call__(self, *shape: int, dtype: Any = torch.bfloat16) -> Any:
        return self.place(draw(shape, dtype, self.made))

    def whole(self, *values: int) -> Any:
        return self.place(torch.tensor(values, dtype=torch.int32))

    def table(self, size: int) -> Any:
        """Draw the pages of each sequence, which has CAPACITY keys."""
        pages = torch.randperm(len(LENGTHS) * CAPACITY // size, generator=torch.Generator().manual_seed(size))
        return self.place(pages.to(torch.int32).view(len(LENGTHS), -1))

    def place(self, values: Any) -> Any:
        self.made += 1
        device = self.stray if self.stray and self.made == 2 else self.device
        if not self.held:
            return values.to(device)
        tensor = torch.zeros(values.shape, dtype=values.dtype, device=device)
        if values.is_floating_point():
            tensor.copy_(torch.full_like(tensor, math.nan, dtype=torch.float32))
        with torch.cuda.device(device):
            torch.cuda._sleep(HOLD_CYCLES)
        return tensor.copy_(values.pin_memory(), non_blocking=True)


def prefill(f: Any, m: Maker, *, d: int = 128, **options: Any) -> Any:
    return f.attention(m(2, 500, 8, d), m(2, 500, 2, d), m(2, 500, 2, d), causal=True, return_lse=True, **options)


def sinks(f: Any, m: Maker) -> Any:
    q, k, v = m(1, 300, 8, 64), m(1, 900, 2, 64), m(1, 900, 2, 64)
    return f.attention(q, k, v, window=(200, 0), sinks=m(8), return_lse=True)


def varlen(f: Any, m: Maker) -> Any:
    starts = m.whole(0, 100, 101, 600)
    return f.attention_varlen(m(600, 8, 128), m(600, 2, 128), m(600, 2, 128), starts, starts, causal=True, return_lse=True)


def pages(m: Maker, size: int, d: int = 128) -> tuple[Any, Any]:
    shape = (len(LENGTHS) * CAPACITY // size, size, 2, d)
    return m(*shape), m(*shape)


def paged(f: Any, m: Maker, *, size: int = 16) -> Any:
    q, pools, starts = m(401, 8, 128), pages(m, size), m.whole(0, 300, 400, 401)
    return f.attention_varlen(
        q, *pools, starts, seqused_k=m.whole(*LENGTHS), page_table=m.table(size), causal=True, return_lse=True
    )


def decode(f: Any, m: Maker, *, size: int = 0, d: int = 128, **options: Any) -> Any:
    q = m(3, 2, 8, d)
    caches = pages(m, size, d) if size else (m(3, CAPACITY, 2, d), m(3, CAPACITY, 2, d))
    table = m.table(size) if size else None
    return f.decode(q, *caches, lengths=m.whole(*LENGTHS), page_table=table, causal=True, return_lse=True, **options)


def decode_fp8(f: Any, m: Maker) -> Any:
    q, caches = (
        m(3, 1, 8, 128),
        (m(3, CAPACITY, 2, 128, dtype=torch.float8_e4m3fn), m(3, CAPACITY, 2, 128, dtype=torch.float8_e4m3fn)),
    )
    scales = [m(3, 2, dtype=torch.float32).abs() for _ in range(2)]
    return f.decode(q, *caches, lengths=m.whole(*LENGTHS), k_scale=scales[0], v_scale=scales[1], return_lse=True)


def decode_varlen(f: Any, m: Maker, *, size: int = 64) -> Any:
    q, pools = m(9, 8, 128), pages(m, size)
    return f.decode_varlen(
        q,
        *pools,
        m.whole(0, 4, 5, 9),
        max_queries=4,
        lengths=m.whole(700, 129, 4),
        page_table=m.table(size),
        causal=True,
        return_lse=True,
    )


def append(f: Any, m: Maker, *, size: int = 0, queries: int = 1, **options: Any) -> Any:
    """Return the result and both caches, which it writes."""
    q = m(3, queries, 8, 128)
    caches = pages(m, size) if size else (m(3, CAPACITY, 2, 128), m(3, CAPACITY, 2, 128))
    new = m(3, queries, 2, 128), m(3, queries, 2, 128)
    if size:
        options["page_table"] = m.table(size)
    result = f.flash_attn_with_kvcache(q, *caches, *new, cache_seqlens=m.whole(*LENGTHS), causal=True, **options)
    return result, *caches


def rotate(f: Any, m: Maker) -> Any:
    cos, sin = m(CAPACITY, 32), m(CAPACITY, 32)
    return append(f, m, rotary_cos=cos, rotary_sin=sin)


def flash(f: Any, m: Maker) -> Any:
    return f.flash_attn_func(m(2, 300, 8, 96), m(2, 300, 2, 96), m(2, 300, 2, 96), causal=True)


def flash_varlen(f: Any, m: Maker) -> Any:
    q, k, v, starts = m(300, 8, 128), m(300, 8, 128), m(300, 8, 128), m.whole(0, 100, 300)
    return f.flash_attn_varlen_func(q, k, v, starts, starts, 200, 200, causal=True)


def combine(f: Any, m: Maker) -> Any:
    return f.flash_attn_combine(m(7, 2, 50, 8, 128, dtype=torch.float32), m(7, 2, 50, 8, dtype=torch.float32))


def e4m3(f: Any, m: Maker, d: int = 128) -> Any:
    q, k, v = (m(2, 400, heads, d, dtype=torch.float8_e4m3fn) for heads in (8, 2, 2))
    return f.attention_e4m3(q, k, v, causal=True, q_scale=m(2, 2, dtype=torch.float32).abs(), return_lse=True)


def e4m3_packed(f: Any, m: Maker) -> Any:
    q, k, v = (m(300, heads, 128, dtype=torch.float8_e4m3fn) for heads in (8, 2, 2))
    starts = m.whole(0, 100, 300)
    return f.attention_e4m3_varlen(q, k, v, starts, starts, causal=True, q_scale=m(2, 2, dtype=torch.float32).abs())


def e4m3_blocks(f: Any, m: Maker) -> Any:
    rounded = f.quantise_e4m3(m(2, 400, 8, 128), m(2, 400, 2, 128), m(2, 400, 2, 128))
    return *(value for value in rounded.values() if isinstance(value, torch.Tensor)), f.attention_e4m3(**rounded, causal=True)


def transpose(f: Any, m: Maker) -> Any:
    return f.transpose_values(m(2, 400, 2, 128), m(2, 2, dtype=torch.float32).abs())


def quantise(_: Any, m: Maker) -> Any:
    from flashcore._quantise import quantise

    return quantise(m(2, 400, 8, 128), kv_heads=2, signs=(1, 2, 3, 4))


def stream(f: Any, m: Maker) -> Any:
    return f.stream_axpy(2.0, m(100_000, dtype=torch.float32), m(100_000, dtype=torch.float32))


def operators() -> Any:
    import flashcore.ops  # noqa: F401 - registers the namespace

    return torch.ops.flashcore


def op_fwd(_: Any, m: Maker) -> Any:
    return operators().fwd(m(2, 300, 8, 128), m(2, 300, 2, 128), m(2, 300, 2, 128), causal=True)


def op_decode(_: Any, m: Maker) -> Any:
    return operators().fwd(m(3, 1, 8, 128), m(3, CAPACITY, 2, 128), m(3, CAPACITY, 2, 128), seqused_k=m.whole(*LENGTHS))


def op_fwd_out(_: Any, m: Maker) -> Any:
    q, k, v = m(2, 300, 8, 128), m(2, 300, 2, 128), m(2, 300, 2, 128)
    out, lse = torch.empty_like(q), torch.empty(2, 8, 300, dtype=torch.float32, device=q.device)
    operators().fwd_out(out, lse, q, k, v, causal=True)
    return out, lse


def op_fwd_append(_: Any, m: Maker) -> Any:
    q, caches, new = m(3, 1, 8, 128), (m(3, CAPACITY, 2, 128), m(3, CAPACITY, 2, 128)), (m(3, 1, 2, 128), m(3, 1, 2, 128))
    return *operators().fwd_append(q, *caches, *new, seqused_k=m.whole(*LENGTHS), causal=True), *caches


def op_of_flash_attention_3(_: Any, m: Maker) -> Any:
    import flashcore.fa3  # noqa: F401 - registers the namespace

    return torch.ops.flash_attn_3.fwd(m(2, 300, 8, 128), m(2, 300, 2, 128), m(2, 300, 2, 128), is_causal=True)[:2]


def op_combine(_: Any, m: Maker) -> Any:
    import flashcore.fa3  # noqa: F401 - registers the namespace

    return torch.ops.flash_attn_3.fwd_combine(m(7, 2, 50, 8, 128, dtype=torch.float32), m(7, 2, 50, 8, dtype=torch.float32))


def triton(_: Any, m: Maker) -> Any:
    from flashcore.doors import fallback

    tensors = m(2, 300, 8, 80), m(2, 300, 2, 80), m(2, 300, 2, 80)
    result = fallback.call("attention", tensors, {"causal": True, "return_lse": True})
    if result is None:
        raise ValueError("the Triton kernel does not serve this")
    return result


CALLS: dict[str, Callable[[Any, Maker], Any]] = {
    "prefill": prefill,
    "prefill d64": lambda f, m: prefill(f, m, d=64),
    "prefill d256": lambda f, m: prefill(f, m, d=256),
    "prefill softcap": lambda f, m: prefill(f, m, softcap=15.0),
    "sinks": sinks,
    "varlen": varlen,
    "paged": paged,
    "paged by single keys": lambda f, m: paged(f, m, size=1),
    "decode": decode,
    "decode d64": lambda f, m: decode(f, m, d=64),
    "decode d256": lambda f, m: decode(f, m, d=256),
    "decode deterministic": lambda f, m: decode(f, m, deterministic=True),
    "decode splits": lambda f, m: decode(f, m, splits=5),
    "decode window": lambda f, m: decode(f, m, window=(100, 0)),
    "decode in pages": lambda f, m: decode(f, m, size=16),
    "decode in pages of 64": lambda f, m: decode(f, m, size=64),
    "decode fp8": decode_fp8,
    "decode_varlen": decode_varlen,
    "decode_varlen in small pages": lambda f, m: decode_varlen(f, m, size=8),
    "append": append,
    "append to pages": lambda f, m: append(f, m, size=16),
    "append many": lambda f, m: append(f, m, queries=40),
    "append many to pages": lambda f, m: append(f, m, size=16, queries=40),
    "append rotary": rotate,
    "flash_attn_func": flash,
    "flash_attn_varlen_func": flash_varlen,
    "flash_attn_combine": combine,
    "e4m3": e4m3,
    "e4m3 d64": lambda f, m: e4m3(f, m, 64),
    "e4m3 d256": lambda f, m: e4m3(f, m, 256),
    "e4m3 blocks": e4m3_blocks,
    "e4m3 packed": e4m3_packed,
    "transpose_values": transpose,
    "quantise": quantise,
    "stream": stream,
    "fwd": op_fwd,
    "fwd decode": op_decode,
    "fwd_out": op_fwd_out,
    "fwd_append": op_fwd_append,
    "flash_attn_3::fwd": op_of_flash_attention_3,
    "flash_attn_3::fwd_combine": op_combine,
    "triton": triton,
}
ONE_TENSOR = {"quantise"}
