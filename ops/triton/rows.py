"""RopeSplit, AddRMSNorm, Dropout, SwiGLU and their gradients for a GPU: see ops/rows.cc for what they compute.

A program takes a row, or some heads of a row. Statistics are float32, whatever the type of the rows.
"""

import triton
import triton.language as tl
from triton.language.random import philox_impl


@triton.jit
def turn(half, own, i, d, COS, SIN):
    """Index of the other number of each pair of a head, cosines and sines, [1, DB]."""
    at = i * half + tl.where(d < half, d, d - half)
    c = tl.load(COS + at, mask=own & (d < 2 * half), other=1.0)
    s = tl.load(SIN + at, mask=own & (d < 2 * half), other=0.0)
    return tl.where(d < half, d + half, d - half), c, s


@triton.jit
def rope_split(QKV, COS, SIN, OUT_Q, OUT_K, OUT_V, heads, kv, half, D: tl.constexpr, DB: tl.constexpr, B: tl.constexpr):
    """A program takes B heads of a row."""
    i, d = tl.program_id(0).to(tl.int64), tl.arange(0, DB)[None]
    h = tl.program_id(1) * B + tl.arange(0, B)[:, None]
    own = (d < D) & (h < heads + 2 * kv)
    turned = own & (d < 2 * half) & (h < heads + kv)
    other, c, s = turn(half, d < D, i, d, COS, SIN)
    x = QKV + (i * (heads + 2 * kv) + h) * D
    a = tl.load(x + d, mask=own, other=0.0).to(tl.float32)
    b = tl.load(x + other, mask=turned, other=0.0).to(tl.float32)
    y = tl.where(turned, a * c + tl.where(d < half, -b, b) * s, a)
    q, k, v = h < heads, (h >= heads) & (h < heads + kv), h >= heads + kv
    tl.store(OUT_Q + (i * heads + h) * D + d, y.to(OUT_Q.dtype.element_ty), mask=own & q)
    tl.store(OUT_K + (i * kv + h - heads) * D + d, y.to(OUT_K.dtype.element_ty), mask=own & k)
    tl.store(OUT_V + (i * kv + h - heads - kv) * D + d, y.to(OUT_V.dtype.element_ty), mask=own & v)


@triton.jit
def rope_split_grad(DQ, DK, DV, COS, SIN, OUT, heads, kv, half, D: tl.constexpr, DB: tl.constexpr, B: tl.constexpr):
    """All three gradients are present: the launcher passes zeros for a missing one."""
    i, d = tl.program_id(0).to(tl.int64), tl.arange(0, DB)[None]
    h = tl.program_id(1) * B + tl.arange(0, B)[:, None]
    own = (d < D) & (h < heads + 2 * kv)
    turned = own & (d < 2 * half) & (h < heads + kv)
    other, c, s = turn(half, d < D, i, d, COS, SIN)
    q, k, v = h < heads, (h >= heads) & (h < heads + kv), h >= heads + kv
    in_q, in_k, in_v = DQ + (i * heads + h) * D, DK + (i * kv + h - heads) * D, DV + (i * kv + h - heads - kv) * D
    a = tl.load(in_q + d, mask=own & q, other=0.0).to(tl.float32)
    a += tl.load(in_k + d, mask=own & k, other=0.0).to(tl.float32)
    a += tl.load(in_v + d, mask=own & v, other=0.0).to(tl.float32)
    b = tl.load(in_q + other, mask=turned & q, other=0.0).to(tl.float32)
    b += tl.load(in_k + other, mask=turned & k, other=0.0).to(tl.float32)
    y = tl.where(turned, a * c + tl.where(d < half, b, -b) * s, a)
    tl.store(OUT + (i * (heads + 2 * kv) + h) * D + d, y.to(OUT.dtype.element_ty), mask=own)


@triton.jit
def add_rms_norm(X, Y, W, SUM, N, RSTD, width, epsilon, HAS: tl.constexpr, B: tl.constexpr):
    """HAS: SUM is wanted."""
    i = tl.program_id(0).to(tl.int64)
    squares = tl.zeros([B], tl.float32)
    for at in range(0, width, B):
        d = at + tl.arange(0, B)
        x = tl.load(X + i * width + d, mask=d < width, other=0.0)
        x += tl.load(Y + i * width + d, mask=d < width, other=0.0).to(tl.float32)
        if HAS:
            tl.store(SUM + i * width + d, x, mask=d < width)
        squares += x * x
    r = 1.0 / tl.sqrt(tl.sum(squares, 0) / width + epsilon)
    for at in range(0, width, B):
        d = at + tl.arange(0, B)
        x = tl.load(X + i * width + d, mask=d < width, other=0.0)
        x += tl.load(Y + i * width + d, mask=d < width, other=0.0).to(tl.float32)
        y = x * r * tl.load(W + d, mask=d < width, other=0.0)
        tl.store(N + i * width + d, y.to(N.dtype.element_ty), mask=d < width)
    tl.store(RSTD + i, r)


@triton.jit
def add_rms_norm_grad(DN, DSUM, N, W, RSTD, DX, DY, width, HAS: tl.constexpr, B: tl.constexpr):
    """HAS: DSUM is present. DX and DY are equal except for their types. No weight may be 0."""
    i = tl.program_id(0).to(tl.int64)
    along = tl.zeros([B], tl.float32)
    for at in range(0, width, B):
        d = at + tl.arange(0, B)
        g = tl.load(DN + i * width + d, mask=d < width, other=0.0).to(tl.float32)
        along += g * tl.load(N + i * width + d, mask=d < width, other=0.0).to(tl.float32)
    r = tl.load(RSTD + i)
    k = tl.sum(along, 0) / width
    for at in range(0, width, B):
        d = at + tl.arange(0, B)
        g = tl.load(DN + i * width + d, mask=d < width, other=0.0).to(tl.float32)
        n = tl.load(N + i * width + d, mask=d < width, other=0.0).to(tl.float32)
        w = tl.load(W + d, mask=d < width, other=1.0)
        g = r * (g * w - n / w * k)
        if HAS:
            g += tl.load(DSUM + i * width + d, mask=d < width, other=0.0)
        tl.store(DX + i * width + d, g, mask=d < width)
        tl.store(DY + i * width + d, g.to(DY.dtype.element_ty), mask=d < width)


@triton.jit
def bits(x):
    return tl.to_tensor(x).to(tl.uint32, bitcast=True)


@triton.jit
def dropout(X, Y, low, high, site, threshold, scale, width, B: tl.constexpr):
    """A program takes B columns of each quarter of a row; low and high are the seed's halves."""
    i, d = tl.program_id(0).to(tl.int64), tl.program_id(1) * B + tl.arange(0, B)
    quarter = (width + 3) // 4
    zero = tl.zeros([B], tl.uint32)
    rows = zero + tl.program_id(0).to(tl.uint32, bitcast=True)
    r = philox_impl(d.to(tl.uint32, bitcast=True), rows, zero + bits(site), zero, zero + bits(low), zero + bits(high))
    for p in tl.static_range(4):
        at = p * quarter + d
        own = (d < quarter) & (at < width)
        x = tl.load(X + i * width + at, mask=own, other=0.0).to(tl.float32)
        y = tl.where(r[p] < bits(threshold), 0.0, x * scale)
        tl.store(Y + i * width + at, y.to(Y.dtype.element_ty), mask=own)


@triton.jit
def swiglu(X, Y, half, B: tl.constexpr):
    i, d = tl.program_id(0).to(tl.int64), tl.program_id(1) * B + tl.arange(0, B)
    gate = tl.load(X + i * 2 * half + d, mask=d < half, other=0.0).to(tl.float32)
    up = tl.load(X + i * 2 * half + half + d, mask=d < half, other=0.0).to(tl.float32)
    y = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(Y + i * half + d, y.to(Y.dtype.element_ty), mask=d < half)


@triton.jit
def swiglu_grad(DY, X, DX, half, B: tl.constexpr):
    i, d = tl.program_id(0).to(tl.int64), tl.program_id(1) * B + tl.arange(0, B)
    gate = tl.load(X + i * 2 * half + d, mask=d < half, other=0.0).to(tl.float32)
    up = tl.load(X + i * 2 * half + half + d, mask=d < half, other=0.0).to(tl.float32)
    g = tl.load(DY + i * half + d, mask=d < half, other=0.0).to(tl.float32)
    s = 1.0 / (1.0 + tl.exp(-gate))
    dgate = g * up * s * (1.0 + gate * (1.0 - s))
    tl.store(DX + i * 2 * half + d, dgate.to(DX.dtype.element_ty), mask=d < half)
    tl.store(DX + i * 2 * half + half + d, (g * gate * s).to(DX.dtype.element_ty), mask=d < half)
