"""FlashAttention's forward in Triton, for GPUs that are not Hopper and for what the Hopper kernels refuse.

A program computes a tile of queries of one head. Keys of dense tensors, of packed sequences and of pages are read through pointers, so
one kernel serves them all. Tiles whose keys are all visible skip the mask.
"""

import triton
import triton.language as tl


@triton.jit
def _tanh(x):
    return 1.0 - 2.0 / (tl.exp2(x * 2.8853900817779268) + 1.0)


@triton.jit
def _step(
    q, K, V, table, acc, sums, top, i, begin, end, left, right,
    scale, softcap, k_page, k_row, v_page, v_row, MASKED: tl.constexpr, PAGE: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, SOFTCAP: tl.constexpr, N: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Attend to keys ``begin`` to ``begin + N``. ``i`` is the key that each row is aligned with."""
    j = begin + tl.arange(0, N)
    d = tl.arange(0, WIDTH)
    if PAGE:
        page = tl.load(table + j // PAGE, mask=j < end, other=0).to(tl.int64)
        k_at, v_at = page * k_page + (j % PAGE) * k_row, page * v_page + (j % PAGE) * v_row
    else:
        k_at, v_at = j.to(tl.int64) * k_row, j.to(tl.int64) * v_row
    if MASKED or WIDTH != D:
        kept = (j < end)[:, None] & (d < D)[None, :]
        k = tl.load(K + k_at[:, None] + d[None, :], mask=kept, other=0.0)
        v = tl.load(V + v_at[:, None] + d[None, :], mask=kept, other=0.0)
    else:
        k = tl.load(K + k_at[:, None] + d[None, :])
        v = tl.load(V + v_at[:, None] + d[None, :])
    s = tl.dot(q, tl.trans(k))
    if SOFTCAP:
        s = softcap * _tanh(s * scale)
    else:
        s = s * scale
    if MASKED:
        seen = (j < end)[None, :]
        if LEFT:
            seen = seen & (j[None, :] >= i[:, None] - left)
        if RIGHT:
            seen = seen & (j[None, :] <= i[:, None] + right)
        s = tl.where(seen, s, float("-inf"))
    new = tl.maximum(top, tl.max(s, 1))
    finite = tl.where(new == float("-inf"), 0.0, new) if MASKED else new
    p = tl.exp2(s - finite[:, None])
    factor = tl.exp2(top - finite)
    sums = sums * factor + tl.sum(p, 1)
    acc = acc * factor[:, None]
    acc = tl.dot(p.to(v.dtype), v, acc)
    return acc, sums, new


@triton.jit
def flashcore_triton_forward(
    Q, K, V, Out, Lse, Sinks, starts_q, starts_k, used_q, used_k, table,
    scale, softcap, left, right, rows, keys, group, table_stride,
    q_batch, q_row, q_head, k_batch, k_row, k_head, v_batch, v_row, v_head,
    o_batch, o_row, o_head, lse_batch, lse_head,
    PACKED_Q: tl.constexpr, PACKED_K: tl.constexpr, USED_Q: tl.constexpr, USED_K: tl.constexpr, PAGE: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, SOFTCAP: tl.constexpr, SINKS: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    D: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Compute a tile. Scale and cap count powers of two. The last tile of a sequence, which is the longest, comes first."""
    tile, head, b = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1), tl.program_id(2)
    q_first, length = b.to(tl.int64) * 0, rows
    if PACKED_Q:
        q_first = tl.load(starts_q + b).to(tl.int64)
        length = tl.load(starts_q + b + 1).to(tl.int32) - q_first.to(tl.int32)
    if USED_Q:
        length = tl.minimum(length, tl.load(used_q + b))
    if tile * M >= length:
        return
    k_first, end = b.to(tl.int64) * 0, keys
    if PACKED_K:
        k_first = tl.load(starts_k + b).to(tl.int64)
        end = tl.load(starts_k + b + 1).to(tl.int32) - k_first.to(tl.int32)
    if USED_K:
        end = tl.maximum(tl.minimum(end, tl.load(used_k + b)), 0)
    m, d = tile * M + tl.arange(0, M), tl.arange(0, WIDTH)
    kept = (m < length)[:, None] & (d < D)[None, :]
    Q += b.to(tl.int64) * q_batch + head * q_head + q_first * q_row
    q = tl.load(Q + m.to(tl.int64)[:, None] * q_row + d[None, :], mask=kept, other=0.0)
    K += (head // group) * k_head + k_first * k_row
    V += (head // group) * v_head + k_first * v_row
    if not PAGE:
        K += b.to(tl.int64) * k_batch
        V += b.to(tl.int64) * v_batch
    table += b.to(tl.int64) * table_stride
    offset = end - length
    i = m + offset
    first_row, last_row = tile * M + offset, tl.minimum(tile * M + M, length) - 1 + offset
    begin, stop, full_begin, full_stop = 0, end, 0, end // N * N
    if LEFT:
        begin = tl.maximum(first_row - left, 0) // N * N
        full_begin = tl.cdiv(tl.maximum(last_row - left, 0), N) * N
    if RIGHT:
        stop = tl.minimum(last_row + right + 1, end)
        full_stop = tl.minimum(tl.maximum(first_row + right + 1, 0), end) // N * N
    full_begin = tl.minimum(full_begin, tl.cdiv(tl.maximum(stop, 0), N) * N)
    full_stop = tl.maximum(full_stop, full_begin)
    acc = tl.zeros((M, WIDTH), dtype=tl.float32)
    sums = tl.zeros((M,), dtype=tl.float32)
    top = tl.full((M,), float("-inf"), dtype=tl.float32)
    if LEFT:
        for n in range(begin, full_begin, N):
            acc, sums, top = _step(
                q, K, V, table, acc, sums, top, i, n, end, left, right, scale, softcap, k_batch, k_row, v_batch, v_row,
                True, PAGE, LEFT, RIGHT, SOFTCAP, N, D, WIDTH,
            )  # fmt: skip
    for n in range(full_begin, full_stop, N):
        acc, sums, top = _step(
            q, K, V, table, acc, sums, top, i, n, end, left, right, scale, softcap, k_batch, k_row, v_batch, v_row,
            False, PAGE, LEFT, RIGHT, SOFTCAP, N, D, WIDTH,
        )  # fmt: skip
    for n in range(full_stop, stop, N):
        acc, sums, top = _step(
            q, K, V, table, acc, sums, top, i, n, end, left, right, scale, softcap, k_batch, k_row, v_batch, v_row,
            True, PAGE, LEFT, RIGHT, SOFTCAP, N, D, WIDTH,
        )  # fmt: skip
    if SINKS:
        sink = tl.load(Sinks + head).to(tl.float32) * 1.4426950408889634
        new = tl.maximum(top, sink)
        finite = tl.where(new == float("-inf"), 0.0, new)
        factor = tl.exp2(top - finite)
        acc, sums, top = acc * factor[:, None], sums * factor + tl.exp2(sink - finite), new
    empty = sums == 0.0
    sums = tl.where(empty, 1.0, sums)
    acc = acc / sums[:, None]
    lse = tl.where(empty, float("-inf"), (top + tl.log2(sums)) * 0.6931471805599453)
    Out += b.to(tl.int64) * o_batch + head * o_head + q_first * o_row
    tl.store(Out + m.to(tl.int64)[:, None] * o_row + d[None, :], acc.to(Out.dtype.element_ty), mask=kept)
    tl.store(Lse + b.to(tl.int64) * lse_batch + head * lse_head + q_first + m, lse, mask=m < length)
