"""FlashAttention and its gradient for a GPU: ops/attention.cc says what they compute, tables.py how tables reach them.

A program takes a tile of rows (queries, or keys in attention_dkv) of one head, and walks the segments of its tile: no
atomics, so that results have the same bytes each time. D is the size of a head, DB the power of two that holds it.
"""

import triton
import triton.language as tl


@triton.jit
def segment(SEGMENTS, LIST, at):
    """First query, queries, first key, keys and offset of entry `at` of a list."""
    s = SEGMENTS + tl.load(LIST + at) * 5
    return tl.load(s), tl.load(s + 1), tl.load(s + 2), tl.load(s + 3), tl.load(s + 4)


@triton.jit
def tile(TILES):
    """First row, rows, and where the list of segments begins and ends."""
    t = TILES + tl.program_id(0) * 4
    return tl.load(t), tl.load(t + 1), tl.load(t + 2), tl.load(t + 3)


@triton.jit
def seen(i, j, keys, offset, window):
    """Whether query i of a segment attends to its key j."""
    ok = (j < keys) & (j >= 0) & (j <= offset + i)
    return ok & ((window <= 0) | (offset + i - j < window))


@triton.jit
def keys_of(i, rows, keys, offset, window, BN: tl.constexpr):
    """Keys that the queries i to i + rows - 1 of a segment attend to: first one, at a multiple of BN, and end."""
    begin = 0
    if window > 0:
        begin = tl.maximum(0, offset + i - window + 1) // BN * BN
    return begin, tl.minimum(keys, offset + i + rows)


@triton.jit
def attention(
    Q, K, V, O, LSE, SEGMENTS, LIST, TILES, queries, heads, group, window, scale,
    D: tl.constexpr, DB: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    first, rows, begin, end = tile(TILES)
    h, d = tl.program_id(1), tl.arange(0, DB)
    m = first + tl.arange(0, BM)
    here = m < first + rows
    at = (m * heads + h).to(tl.int64)[:, None] * D + d[None]
    q = tl.load(Q + at, mask=here[:, None] & (d < D)[None], other=0.0)
    acc = tl.zeros([BM, DB], tl.float32)
    most, total = tl.full([BM], -1e30, tl.float32), tl.zeros([BM], tl.float32)
    for s in range(begin, end):
        q0, qn, k0, kn, offset = segment(SEGMENTS, LIST, s)
        low, high = keys_of(first - q0, rows, kn, offset, window, BN)
        for n0 in range(low, high, BN):
            n = n0 + tl.arange(0, BN)
            row = ((k0 + n) * (heads // group) + h // group).to(tl.int64)[:, None] * D + d[None]
            there = (n < kn)[:, None] & (d < D)[None]
            k, v = tl.load(K + row, mask=there, other=0.0), tl.load(V + row, mask=there, other=0.0)
            ok = here[:, None] & seen(m[:, None] - q0, n[None], kn, offset, window)
            x = tl.where(ok, tl.dot(q, tl.trans(k)) * scale, -1e30)
            new = tl.maximum(most, tl.max(x, 1))
            p = tl.where(ok, tl.exp(x - new[:, None]), 0.0)
            old = tl.exp(most - new)
            total = total * old + tl.sum(p, 1)
            acc = acc * old[:, None] + tl.dot(p.to(v.dtype), v)
            most = new
    lse = tl.where(total > 0, most + tl.log(total), float("-inf"))  # nothing is attended to: 0
    y = acc / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(O + at, y.to(O.dtype.element_ty), mask=here[:, None] & (d < D)[None])
    tl.store(LSE + h * queries + m, lse, mask=here)


@triton.jit
def attention_own(G, O, OWN, queries, heads, D: tl.constexpr, DB: tl.constexpr, BM: tl.constexpr):
    """g o' of each query and head, [heads, queries]."""
    m, h, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1), tl.arange(0, DB)
    at = (m * heads + h).to(tl.int64)[:, None] * D + d[None]
    ok = (m < queries)[:, None] & (d < D)[None]
    g, o = tl.load(G + at, mask=ok, other=0.0).to(tl.float32), tl.load(O + at, mask=ok, other=0.0).to(tl.float32)
    tl.store(OWN + h * queries + m, tl.sum(g * o, 1), mask=m < queries)


@triton.jit
def attention_dq(
    G, Q, K, V, LSE, OWN, DQ, SEGMENTS, LIST, TILES, queries, heads, group, window, scale,
    D: tl.constexpr, DB: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    first, rows, begin, end = tile(TILES)
    h, d = tl.program_id(1), tl.arange(0, DB)
    m = first + tl.arange(0, BM)
    here = m < first + rows
    at = (m * heads + h).to(tl.int64)[:, None] * D + d[None]
    inside = here[:, None] & (d < D)[None]
    q, g = tl.load(Q + at, mask=inside, other=0.0), tl.load(G + at, mask=inside, other=0.0)
    lse = tl.load(LSE + h * queries + m, mask=here, other=0.0)
    own = tl.load(OWN + h * queries + m, mask=here, other=0.0)
    acc = tl.zeros([BM, DB], tl.float32)
    for s in range(begin, end):
        q0, qn, k0, kn, offset = segment(SEGMENTS, LIST, s)
        low, high = keys_of(first - q0, rows, kn, offset, window, BN)
        for n0 in range(low, high, BN):
            n = n0 + tl.arange(0, BN)
            row = ((k0 + n) * (heads // group) + h // group).to(tl.int64)[:, None] * D + d[None]
            there = (n < kn)[:, None] & (d < D)[None]
            k, v = tl.load(K + row, mask=there, other=0.0), tl.load(V + row, mask=there, other=0.0)
            ok = here[:, None] & seen(m[:, None] - q0, n[None], kn, offset, window)
            p = tl.where(ok, tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None]), 0.0)
            ds = p * (tl.dot(g, tl.trans(v)) - own[:, None]) * scale
            acc += tl.dot(ds.to(k.dtype), k)
    tl.store(DQ + at, acc.to(DQ.dtype.element_ty), mask=inside)


@triton.jit
def attention_dkv(
    G, Q, K, V, LSE, OWN, DK, DV, SEGMENTS, LIST, TILES, queries, heads, group, window, scale,
    D: tl.constexpr, DB: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """TILES and LIST are of keys, program 1 is a head of keys: it adds up the heads of queries that share it."""
    first, rows, begin, end = tile(TILES)
    kv, d = tl.program_id(1), tl.arange(0, DB)
    n = first + tl.arange(0, BN)
    here = n < first + rows
    row = (n * (heads // group) + kv).to(tl.int64)[:, None] * D + d[None]
    inside = here[:, None] & (d < D)[None]
    k, v = tl.load(K + row, mask=inside, other=0.0), tl.load(V + row, mask=inside, other=0.0)
    dk, dv = tl.zeros([BN, DB], tl.float32), tl.zeros([BN, DB], tl.float32)
    for h in range(kv * group, kv * group + group):
        for s in range(begin, end):
            q0, qn, k0, kn, offset = segment(SEGMENTS, LIST, s)
            low = tl.maximum(0, first - k0 - offset) // BM * BM
            high = qn
            if window > 0:
                high = tl.minimum(qn, first + rows - 1 - k0 - offset + window)
            for m0 in range(low, high, BM):
                m = m0 + tl.arange(0, BM)
                at = ((q0 + m) * heads + h).to(tl.int64)[:, None] * D + d[None]
                there = m < qn
                whole = there[:, None] & (d < D)[None]
                q, g = tl.load(Q + at, mask=whole, other=0.0), tl.load(G + at, mask=whole, other=0.0)
                lse = tl.load(LSE + h * queries + q0 + m, mask=there, other=0.0)
                own = tl.load(OWN + h * queries + q0 + m, mask=there, other=0.0)
                ok = (here[:, None] & there[None]) & seen(m[None], n[:, None] - k0, kn, offset, window)
                p = tl.where(ok, tl.exp(tl.dot(k, tl.trans(q)) * scale - lse[None]), 0.0)
                dv += tl.dot(p.to(g.dtype), g)
                ds = p * (tl.dot(v, tl.trans(g)) - own[None]) * scale
                dk += tl.dot(ds.to(q.dtype), q)
    tl.store(DK + row, dk.to(DK.dtype.element_ty), mask=inside)
    tl.store(DV + row, dv.to(DV.dtype.element_ty), mask=inside)
