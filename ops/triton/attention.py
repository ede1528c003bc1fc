"""FlashAttention and its gradient for a GPU: see ops/attention.cc for what they compute, tables.py for their tables.

A program takes a tile of rows (queries, or keys in attention_dkv) of one head, and walks the segments of its tile.
There are no atomics, so results are reproducible bit for bit. D is the head size, DB the next power of two.
Exponentials have base two, and there is no mask where all rows of a tile attend to all rows of another.
"""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def segment(SEGMENTS, LIST, at):
    """First query, queries, first key, keys and offset of entry `at` of a list."""
    s = SEGMENTS + tl.load(LIST + at) * 5
    return tl.load(s), tl.load(s + 1), tl.load(s + 2), tl.load(s + 3), tl.load(s + 4)


@triton.jit
def tile(TILES, LAST: tl.constexpr):
    """First row, rows, and begin and end of the list of segments. LAST: process the last tile first, because the last
    queries have most keys (and the first keys most queries)."""
    t = TILES + (tl.num_programs(0) - 1 - tl.program_id(0) if LAST else tl.program_id(0)) * 4
    return tl.load(t), tl.load(t + 1), tl.load(t + 2), tl.load(t + 3)


@triton.jit
def seen(i, j, keys, offset, window):
    """Whether query i of a segment attends to its key j."""
    ok = (j < keys) & (j >= 0) & (j <= offset + i)
    return ok & ((window <= 0) | (offset + i - j < window))


@triton.jit
def keys_of(i, rows, keys, offset, window, BN: tl.constexpr):
    """Keys that the queries i to i + rows - 1 of a segment attend to: the first one, at a multiple of BN, the first one
    that needs a mask, and the end."""
    begin, whole = 0, tl.maximum(0, tl.minimum(keys, offset + i + 1)) // BN * BN
    if window > 0:
        begin = tl.maximum(0, offset + i - window + 1) // BN * BN
        whole = begin
    return begin, whole, tl.minimum(keys, offset + i + rows)


@triton.jit
def load(X, first, rows, stride, N: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, MASK: tl.constexpr):
    """Rows first to first + N - 1 of a head, [N, DB]; with MASK, rows starting at `rows` are zeros."""
    n, d = tl.arange(0, N), tl.arange(0, DB)
    at = X + first.to(tl.int64) * stride + n[:, None] * stride + d[None]
    if MASK:
        return tl.load(at, mask=(n < rows)[:, None] & (d < D)[None], other=0.0)
    if D < DB:
        return tl.load(at, mask=(d < D)[None], other=0.0)
    return tl.load(at)


@triton.jit
def store(X, x, first, rows, stride, N: tl.constexpr, D: tl.constexpr, DB: tl.constexpr):
    n, d = tl.arange(0, N), tl.arange(0, DB)
    at = X + first.to(tl.int64) * stride + n[:, None] * stride + d[None]
    tl.store(at, x.to(X.dtype.element_ty), mask=(n < rows)[:, None] & (d < D)[None])


@triton.jit
def attend(
    acc, most, total, q, K, V, n0, i, k0, kn, offset, window, scale, stride,
    BN: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    k, v = load(K, k0 + n0, kn - n0, stride, BN, D, DB, MASK), load(V, k0 + n0, kn - n0, stride, BN, D, DB, MASK)
    x = tl.dot(q, tl.trans(k)) * scale
    if MASK:
        x = tl.where(seen(i[:, None], n0 + tl.arange(0, BN)[None], kn, offset, window), x, float("-inf"))
    new = tl.maximum(most, tl.max(x, 1))
    p = tl.exp2(x - new[:, None])
    old = tl.exp2(most - new)
    total = total * old + tl.sum(p, 1)
    acc = acc * old[:, None]
    return tl.dot(p.to(v.dtype), v, acc), new, total


@triton.jit
def attention(
    Q, K, V, O, LSE, SEGMENTS, LIST, TILES, queries, heads, group, window, scale,
    D: tl.constexpr, DB: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    first, rows, begin, end = tile(TILES, True)
    h, stride = tl.program_id(1), heads // group * D
    q = load(Q + h * D, first, rows, heads * D, BM, D, DB, True)
    m = tl.arange(0, BM)
    acc = tl.zeros([BM, DB], tl.float32)
    most, total = tl.full([BM], -1e30, tl.float32), tl.zeros([BM], tl.float32)
    K += h // group * D
    V += h // group * D
    scale *= LOG2E
    for s in range(begin, end):
        q0, qn, k0, kn, offset = segment(SEGMENTS, LIST, s)
        i = first - q0 + m
        low, whole, high = keys_of(first - q0, rows, kn, offset, window, BN)
        for n0 in range(low, whole, BN):
            acc, most, total = attend(acc, most, total, q, K, V, n0, i, k0, kn, offset, window, scale, stride, BN, D, DB, False)
        for n0 in range(whole, high, BN):
            acc, most, total = attend(acc, most, total, q, K, V, n0, i, k0, kn, offset, window, scale, stride, BN, D, DB, True)
    lse = tl.where(total > 0, (most + tl.log2(total)) / LOG2E, float("-inf"))  # a query that attends to nothing has output 0
    store(O + h * D, acc / tl.where(total > 0, total, 1.0)[:, None], first, rows, heads * D, BM, D, DB)
    tl.store(LSE + h * queries + first + m, lse, mask=m < rows)


@triton.jit
def attention_own(G, O, OWN, queries, heads, D: tl.constexpr, DB: tl.constexpr, BM: tl.constexpr):
    """g o' of each query and head, [heads, queries]."""
    first, h, m = tl.program_id(0) * BM, tl.program_id(1), tl.arange(0, BM)
    g = load(G + h * D, first, queries - first, heads * D, BM, D, DB, True).to(tl.float32)
    o = load(O + h * D, first, queries - first, heads * D, BM, D, DB, True).to(tl.float32)
    tl.store(OWN + h * queries + first + m, tl.sum(g * o, 1), mask=first + m < queries)


@triton.jit
def to_q(
    acc, q, g, lse, own, K, V, n0, i, k0, kn, offset, window, scale, stride,
    BN: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    k, v = load(K, k0 + n0, kn - n0, stride, BN, D, DB, MASK), load(V, k0 + n0, kn - n0, stride, BN, D, DB, MASK)
    p = tl.exp2(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
    if MASK:
        p = tl.where(seen(i[:, None], n0 + tl.arange(0, BN)[None], kn, offset, window), p, 0.0)
    ds = p * (tl.dot(g, tl.trans(v)) - own[:, None])
    return tl.dot(ds.to(k.dtype), k, acc)


@triton.jit
def attention_dq(
    G, Q, K, V, LSE, OWN, DQ, SEGMENTS, LIST, TILES, queries, heads, group, window, scale,
    D: tl.constexpr, DB: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    first, rows, begin, end = tile(TILES, True)
    h, stride, m = tl.program_id(1), heads // group * D, tl.arange(0, BM)
    q = load(Q + h * D, first, rows, heads * D, BM, D, DB, True)
    g = load(G + h * D, first, rows, heads * D, BM, D, DB, True)
    lse = tl.load(LSE + h * queries + first + m, mask=m < rows, other=0.0) * LOG2E
    own = tl.load(OWN + h * queries + first + m, mask=m < rows, other=0.0)
    acc = tl.zeros([BM, DB], tl.float32)
    K += h // group * D
    V += h // group * D
    for s in range(begin, end):
        q0, qn, k0, kn, offset = segment(SEGMENTS, LIST, s)
        i = first - q0 + m
        low, whole, high = keys_of(first - q0, rows, kn, offset, window, BN)
        for n0 in range(low, whole, BN):
            acc = to_q(acc, q, g, lse, own, K, V, n0, i, k0, kn, offset, window, scale * LOG2E, stride, BN, D, DB, False)
        for n0 in range(whole, high, BN):
            acc = to_q(acc, q, g, lse, own, K, V, n0, i, k0, kn, offset, window, scale * LOG2E, stride, BN, D, DB, True)
    store(DQ + h * D, acc * scale, first, rows, heads * D, BM, D, DB)


@triton.jit
def to_kv(
    dk, dv, k, v, G, Q, LSE, OWN, m0, q0, qn, j, kn, offset, window, scale, stride,
    BM: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, MASK: tl.constexpr,
):  # fmt: skip
    m = tl.arange(0, BM)
    q, g = load(Q, q0 + m0, qn - m0, stride, BM, D, DB, True), load(G, q0 + m0, qn - m0, stride, BM, D, DB, True)
    lse = tl.load(LSE + q0 + m0 + m, mask=m < qn - m0, other=0.0) * LOG2E
    own = tl.load(OWN + q0 + m0 + m, mask=m < qn - m0, other=0.0)
    p = tl.exp2(tl.dot(k, tl.trans(q)) * scale - lse[None])
    if MASK:
        p = tl.where(seen(m0 + m[None], j[:, None], kn, offset, window), p, 0.0)
    dv = tl.dot(p.to(g.dtype), g, dv)
    ds = p * (tl.dot(v, tl.trans(g)) - own[None])
    return tl.dot(ds.to(q.dtype), q, dk), dv


@triton.jit
def attention_dkv(
    G, Q, K, V, LSE, OWN, DK, DV, SEGMENTS, LIST, TILES, queries, heads, group, window, scale, keys, each,
    D: tl.constexpr, DB: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """TILES and LIST are of keys. A program sums over `each` of the query heads that share a key head: all of them, or a
    part, whose sums are stored as [group / each, keys, key heads, D] (attention_sum adds them up). Queries past the
    last of a segment are read as zeros, so their gradients are zeros."""
    first, rows, begin, end = tile(TILES, False)
    begin_h, stride, n = tl.program_id(1) * each, heads // group * D, tl.arange(0, BN)
    kv = begin_h // group
    part = (begin_h % group // each).to(tl.int64) * keys * stride
    k = load(K + kv * D, first, rows, stride, BN, D, DB, True)
    v = load(V + kv * D, first, rows, stride, BN, D, DB, True)
    dk, dv = tl.zeros([BN, DB], tl.float32), tl.zeros([BN, DB], tl.float32)
    two = scale * LOG2E
    for h in range(begin_h, begin_h + each):
        L, W = LSE + h * queries, OWN + h * queries
        for s in range(begin, end):
            q0, qn, k0, kn, offset = segment(SEGMENTS, LIST, s)
            j = first - k0 + n
            low = tl.maximum(0, first - k0 - offset) // BM * BM
            high = qn
            whole = tl.cdiv(tl.maximum(0, first - k0 + rows - 1 - offset), BM) * BM
            if window > 0:
                high = tl.minimum(qn, first + rows - 1 - k0 - offset + window)
                whole = high
            for m0 in range(low, tl.minimum(whole, high), BM):
                dk, dv = to_kv(dk, dv, k, v, G + h * D, Q + h * D, L, W, m0, q0, qn, j, kn, offset, window, two, heads * D, BM, D, DB, True)
            for m0 in range(whole, high, BM):
                dk, dv = to_kv(dk, dv, k, v, G + h * D, Q + h * D, L, W, m0, q0, qn, j, kn, offset, window, two, heads * D, BM, D, DB, False)
    store(DK + part + kv * D, dk * scale, first, rows, stride, BN, D, DB)
    store(DV + part + kv * D, dv, first, rows, stride, BN, D, DB)


@triton.jit
def attention_sum(X, Y, parts, n, B: tl.constexpr):
    """Sums over parts, [parts, n] to [n]."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    y, x = tl.zeros([B], tl.float32), X + i
    for _ in range(parts):
        y += tl.load(x, mask=i < n, other=0.0)
        x += n
    tl.store(Y + i, y.to(Y.dtype.element_ty), mask=i < n)
