"""FlashAttention's forward in Triton, for GPUs that are not Hopper and for what the Hopper kernels refuse.

A program computes a tile of queries of one head. Keys of dense tensors, of packed sequences and of pages are read through pointers, so
one kernel serves them all. Tiles whose keys are all visible skip the mask. E4M3 is read as bytes, because GPUs before 8.9 cannot convert it.
"""

import triton
import triton.language as tl


@triton.jit
def _tanh(x):
    return 1.0 - 2.0 / (tl.exp2(x * 2.8853900817779268) + 1.0)


@triton.jit
def _widen(x, dtype: tl.constexpr):
    """Convert bytes of E4M3 exactly. Its bits are those of a float16 whose exponent is 8 too small. Other types are returned as they are."""
    if x.dtype == tl.uint8:
        bits = x.to(tl.uint16)
        half = (((bits & 0x80) << 8) | ((bits & 0x7F) << 7)).to(tl.float16, bitcast=True) * 256.0
        return tl.where((bits & 0x7F) == 0x7F, float("nan"), half).to(dtype)  # noqa: PLR2004 - a constant of a kernel has another type
    else:  # noqa: RET505 - Triton compiles one of the two
        return x


@triton.jit
def _find_keys(position, left, right, chunk, CHUNK: tl.constexpr):
    """Return the first and the last key that a position sees. One before the first key is in no chunk."""
    first, last = position - left, position + right
    if CHUNK:
        begin = tl.maximum(position, 0) // chunk * chunk
        first, last = tl.maximum(first, begin), tl.where(position < 0, -1, tl.minimum(last, begin + chunk - 1))
    return first, last


@triton.jit
def _find_tiles(
    top, bottom, end, left, right, chunk, LEFT: tl.constexpr, RIGHT: tl.constexpr, CHUNK: tl.constexpr, N: tl.constexpr
):  # fmt: skip
    """Return where the keys of the positions ``top`` to ``bottom`` begin and stop, and between which tiles all see all keys."""
    begin, full_begin, full_stop, stop = end * 0, end * 0, end // N * N, end
    top_first, top_last = _find_keys(top, left, right, chunk, CHUNK)
    bottom_first, bottom_last = _find_keys(bottom, left, right, chunk, CHUNK)
    if LEFT:
        begin = tl.maximum(top_first, 0) // N * N
        full_begin = tl.cdiv(tl.maximum(bottom_first, 0), N) * N
    if RIGHT:
        stop = tl.minimum(bottom_last + 1, end)
        full_stop = tl.minimum(tl.maximum(top_last + 1, 0), end) // N * N
    full_begin = tl.minimum(full_begin, tl.cdiv(tl.maximum(stop, 0), N) * N)
    return begin, full_begin, tl.maximum(full_stop, full_begin), stop


@triton.jit
def _attend(
    q, K, V, table, acc, sums, top, first, last, begin, stop, end, skipped,
    scale, softcap, k_page, k_row, v_page, v_row, MASKED: tl.constexpr, PAGE: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, SOFTCAP: tl.constexpr, N: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Attend to the keys ``begin`` to ``stop``, of which each row sees ``first`` to ``last``."""
    for n in range(begin, stop, N):
        j = n + tl.arange(0, N)
        d = tl.arange(0, WIDTH)
        if PAGE > 0:
            at = j + skipped
            page = tl.load(table + at // PAGE, mask=j < end, other=0).to(tl.int64)
            k_at, v_at = page * k_page + (at % PAGE) * k_row, page * v_page + (at % PAGE) * v_row
        else:
            k_at, v_at = j.to(tl.int64) * k_row, j.to(tl.int64) * v_row
        if MASKED or WIDTH != D:
            kept = (j < end)[:, None] & (d < D)[None, :]
            k = tl.load(K + k_at[:, None] + d[None, :], mask=kept, other=0)
            v = tl.load(V + v_at[:, None] + d[None, :], mask=kept, other=0)
        else:
            k = tl.load(K + k_at[:, None] + d[None, :])
            v = tl.load(V + v_at[:, None] + d[None, :])
        k, v = _widen(k, q.dtype), _widen(v, q.dtype)
        s = tl.dot(q, tl.trans(k))
        if SOFTCAP:
            s = softcap * _tanh(s * scale)
        else:
            s = s * scale
        if MASKED:
            seen = (j < end)[None, :]
            if LEFT:
                seen = seen & (j[None, :] >= first[:, None])
            if RIGHT:
                seen = seen & (j[None, :] <= last[:, None])
            s = tl.where(seen, s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        finite = tl.where(new == float("-inf"), 0.0, new) if MASKED else new
        p = tl.exp2(s - finite[:, None])
        factor = tl.exp2(top - finite)
        sums = sums * factor + tl.sum(p, 1)
        acc = acc * factor[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc)
        top = new
    return acc, sums, top


@triton.jit
def flashcore_triton_forward(
    Q, K, V, Out, Lse, Sinks, Factors, starts_q, starts_k, used_q, used_k, table, padding,
    scale, softcap, left, right, chunk, rows, keys, group, table_stride,
    q_batch, q_row, q_head, k_batch, k_row, k_head, v_batch, v_row, v_head,
    o_batch, o_row, o_head, lse_batch, lse_head,
    PACKED_Q: tl.constexpr, PACKED_K: tl.constexpr, USED_Q: tl.constexpr, USED_K: tl.constexpr, PAGE: tl.constexpr, PADDED: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, CHUNK: tl.constexpr, SOFTCAP: tl.constexpr, SINKS: tl.constexpr, SCALED: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Compute a tile. Scale and cap count powers of two. The last tile of a sequence, which is the longest, comes first.

    PAGE is the keys of a page, 0 without a table, and -1 if the table has the number of each sequence in the cache.
    """
    tile, head, b = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1), tl.program_id(2)
    q_first, length = b.to(tl.int64) * 0, rows
    if PACKED_Q:
        q_first = tl.load(starts_q + b).to(tl.int64)
        length = tl.load(starts_q + b + 1).to(tl.int32) - q_first.to(tl.int32)
    if USED_Q:
        length = tl.minimum(length, tl.load(used_q + b).to(tl.int32))
    if tile * M >= length:
        return
    k_first, end, skipped = b.to(tl.int64) * 0, keys, 0
    if PACKED_K:
        k_first = tl.load(starts_k + b).to(tl.int64)
        end = tl.load(starts_k + b + 1).to(tl.int32) - k_first.to(tl.int32)
    if USED_K:
        end = tl.maximum(tl.minimum(end, tl.load(used_k + b).to(tl.int32)), 0)
    table += b.to(tl.int64) * table_stride
    if PADDED:
        skipped = tl.maximum(tl.load(padding + b).to(tl.int32), 0)
        end = tl.maximum(end - skipped, 0)
    if PAGE <= 0:
        sequence = tl.load(table).to(tl.int64) if PAGE < 0 else b.to(tl.int64)
        K += sequence * k_batch
        V += sequence * v_batch
        k_first += skipped
    K += (head // group) * k_head + k_first * k_row
    V += (head // group) * v_head + k_first * v_row
    m, d = tile * M + tl.arange(0, M), tl.arange(0, WIDTH)
    kept = (m < length)[:, None] & (d < D)[None, :]
    Q += b.to(tl.int64) * q_batch + head * q_head + q_first * q_row
    q = _widen(tl.load(Q + m.to(tl.int64)[:, None] * q_row + d[None, :], mask=kept, other=0), tl.float16)
    if SCALED:
        Factors += (b * (tl.num_programs(1) // group) + head // group) * 2
        scale *= tl.load(Factors)
    offset = end - length
    first, last = _find_keys(m + offset, left, right, chunk, CHUNK)
    begin, full_begin, full_stop, stop = _find_tiles(
        tile * M + offset, tl.minimum(tile * M + M, length) - 1 + offset, end, left, right, chunk, LEFT, RIGHT, CHUNK, N
    )
    acc = tl.zeros((M, WIDTH), dtype=tl.float32)
    sums = tl.zeros((M,), dtype=tl.float32)
    top = tl.full((M,), float("-inf"), dtype=tl.float32)
    if LEFT:
        acc, sums, top = _attend(
            q, K, V, table, acc, sums, top, first, last, begin, full_begin, end, skipped, scale, softcap, k_batch, k_row, v_batch, v_row,
            True, PAGE, LEFT, RIGHT, SOFTCAP, N, D, WIDTH,
        )  # fmt: skip
    acc, sums, top = _attend(
        q, K, V, table, acc, sums, top, first, last, full_begin, full_stop, end, skipped, scale, softcap, k_batch, k_row, v_batch, v_row,
        False, PAGE, LEFT, RIGHT, SOFTCAP, N, D, WIDTH,
    )  # fmt: skip
    acc, sums, top = _attend(
        q, K, V, table, acc, sums, top, first, last, full_stop, stop, end, skipped, scale, softcap, k_batch, k_row, v_batch, v_row,
        True, PAGE, LEFT, RIGHT, SOFTCAP, N, D, WIDTH,
    )  # fmt: skip
    if SINKS:
        sink = tl.load(Sinks + head).to(tl.float32) * 1.4426950408889634
        new = tl.maximum(top, sink)
        finite = tl.where(new == float("-inf"), 0.0, new)
        factor = tl.exp2(top - finite)
        acc, sums, top = acc * factor[:, None], sums * factor + tl.exp2(sink - finite), new
    _store(
        acc, sums, top, m, d, kept, length, Out + b.to(tl.int64) * o_batch + head * o_head + q_first * o_row, o_row,
        Lse + b.to(tl.int64) * lse_batch + head * lse_head + q_first, Factors, SCALED,
    )  # fmt: skip


@triton.jit
def _store(acc, sums, top, m, d, kept, length, Out, row, Lse, Factors, SCALED: tl.constexpr):
    empty = sums == 0.0
    sums = tl.where(empty, 1.0, sums)
    acc = acc / sums[:, None]
    if SCALED:
        acc *= tl.load(Factors + 1)
    lse = tl.where(empty, float("-inf"), (top + tl.log2(sums)) * 0.6931471805599453)
    tl.store(Out + m.to(tl.int64)[:, None] * row + d[None, :], acc.to(Out.dtype.element_ty), mask=kept)
    tl.store(Lse + m, lse, mask=m < length)
