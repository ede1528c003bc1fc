"""Runs the kernels in Triton's interpreter on the CPU, and compares them with torch and the library's CPU kernels.

    python ops/triton/check.py [build/lib/libassay_ops.so]
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402

import attention as fa  # noqa: E402
import rows  # noqa: E402
from tables import tiles  # noqa: E402

LIMIT = 2e-6  # relative to the norm, in float32, or to a tenth of a standard normal tensor's norm, if that is larger
failed = []


def compare(name, got, want, limit=LIMIT):
    d = float((got - want).norm() / max(float(want.norm()), 0.1 * want.numel() ** 0.5))
    if not d <= limit:
        failed.append(name)
    print(f"{name:60} {d:.1e}" + ("" if d <= limit else "  NOT THE SAME"), flush=True)


def pack(groups):
    """Segments of concatenated sequences; the sequences of a group share the rows of a prefix."""
    segments, n = [], 0
    for prefix, lengths in groups:
        start = n
        if prefix:
            segments.append([start, prefix, start, prefix, 0])
            n += prefix
        for length in lengths:
            if prefix:
                segments.append([n, length, start, prefix, prefix])
            segments.append([n, length, n, length, 0])
            n += length
    return segments, n, n


CASES = {  # segments, queries, keys; query heads, key heads, head size; window
    "one row": (*pack([(0, [1])]), 2, 2, 8, 0),
    "31 rows": (*pack([(0, [31])]), 3, 3, 16, 0),
    "64 rows, grouped heads": (*pack([(0, [64])]), 8, 2, 16, 0),
    "77 rows, window": (*pack([(0, [77])]), 7, 1, 12, 9),
    "packed": (*pack([(0, [5]), (0, [17]), (0, [1])]), 2, 1, 8, 0),
    "one prefix": (*pack([(45, [7, 3, 12])]), 4, 2, 64, 0),
    "prefixes, window": (*pack([(1, [4, 4]), (20, [1, 2, 3]), (0, [9])]), 2, 2, 80, 16),
    "1,420 rows behind 45": (*pack([(45, [700, 720])]), 2, 1, 64, 0),
    "windows of an encoder": ([[0, 16, 0, 16, 16], [16, 8, 16, 8, 8]], 24, 24, 2, 2, 72, 0),
    "cross": ([[0, 3, 2, 8, 8], [4, 2, 0, 5, 3]], 6, 10, 2, 1, 4, 0),
}


def plain(q, k, v, segments, heads, kv, window):
    """o and lse with a mask over all pairs."""
    size = q.shape[1] // heads
    mask = torch.zeros(len(q), len(k), dtype=torch.bool)
    i, j = torch.arange(len(q))[:, None], torch.arange(len(k))[None]
    for q0, qn, k0, kn, offset in segments:
        at, key = offset + i - q0, j - k0
        ok = (i >= q0) & (i < q0 + qn) & (key >= 0) & (key < kn) & (key <= at)
        mask |= ok & (at - key < window) if window else ok
    split = lambda x, n: x.reshape(len(x), n, size).transpose(0, 1)  # noqa: E731
    k, v = (split(x, kv).repeat_interleave(heads // kv, 0) for x in (k, v))
    s = (split(q, heads) @ k.transpose(1, 2)) / size**0.5
    s = s.masked_fill(~mask, -torch.inf)
    lse = s.logsumexp(-1)
    p = torch.where(mask, (s - torch.where(lse.isinf(), 0.0, lse)[..., None]).exp(), 0.0)
    return (p @ v).transpose(0, 1).reshape(len(q), -1), lse


def on_tables(q, k, v, g, segments, heads, kv, window, bm=16, bn=16):
    """o, lse, dq, dk, dv from the kernels."""
    size = q.shape[1] // heads
    db = max(16, 1 << (size - 1).bit_length())
    table = torch.tensor(segments, dtype=torch.int32)
    of_queries, query_list = map(torch.from_numpy, tiles(segments, len(q), bm, 0))
    of_keys, key_list = map(torch.from_numpy, tiles(segments, len(k), bn, 2))
    o, lse, own = torch.empty_like(q), torch.empty(heads, len(q)), torch.empty(heads, len(q))
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    sizes = dict(D=size, DB=db, BM=bm, BN=bn)
    tail = (len(q), heads, heads // kv, window, size**-0.5)
    fa.attention[(len(of_queries), heads)](q, k, v, o, lse, table, query_list, of_queries, *tail, **sizes)
    grid = (-(-len(q) // bm), heads)
    fa.attention_own[grid](g, o, own, len(q), heads, D=size, DB=db, BM=bm)
    fa.attention_dq[(len(of_queries), heads)](
        g, q, k, v, lse, own, dq, table, query_list, of_queries, *tail, **sizes
    )
    group, n = heads // kv, len(k)
    fa.attention_dkv[(len(of_keys), kv)](
        g, q, k, v, lse, own, dk, dv, table, key_list, of_keys, *tail, n, group, **sizes
    )
    if group > 1:  # the same in parts
        parts = torch.empty(2, group, *k.shape)
        fa.attention_dkv[(len(of_keys), heads)](
            g, q, k, v, lse, own, *parts, table, key_list, of_keys, *tail, n, 1, **sizes
        )
        for what, part, whole in zip("kv", parts, (dk, dv)):
            total = torch.empty_like(k)
            fa.attention_sum[(-(-k.numel() // 64),)](part, total, group, k.numel(), B=64)
            compare(f"gradient of {what} in {group} parts", total, whole)
    return o, lse, dq, dk, dv


def library(path):
    """A function that runs one fused operator on the CPU; None without the packages."""
    try:
        import onnxruntime
        from onnx import TensorProto, helper
    except ImportError:
        return None

    def run(op, inputs, outputs, **attributes):
        kinds = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64}
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
        node = helper.make_node(op, names, outputs, domain="assay", **attributes)
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [node],
            "g",
            [value(n, kinds[x.dtype.name], x.shape) for n, x in zip(names, inputs) if n],
            [value(n, TensorProto.FLOAT, None) for n in outputs if n],
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("assay", 1)], ir_version=9
        )
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(path)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        out = session.run(None, {n: x for n, x in zip(names, inputs) if n})
        return [torch.from_numpy(x) for x in out]

    return run


def check_half():
    """Values in float16 match float32 except for rounding; the interpreter cannot multiply bfloat16."""
    torch.manual_seed(2)
    segments, n, _ = pack([(20, [9, 30])])
    q, k, v, g = (torch.randn(n, 2 * 32).half() for _ in range(4))
    want = on_tables(*(x.float() for x in (q, k, v, g)), segments, 2, 2, 0)
    for what, a, b in zip(("o", "lse", "dq", "dk", "dv"), on_tables(q, k, v, g, segments, 2, 2, 0), want):
        compare(f"attention in float16: {what}", a.float(), b, 2e-3)


def check_attention(cpu):
    for name, (segments, n, m, heads, kv, size, window) in CASES.items():
        torch.manual_seed(n)
        q, g = torch.randn(n, heads * size), torch.randn(n, heads * size)
        k, v = torch.randn(m, kv * size), torch.randn(m, kv * size)
        leaves = [x.double().requires_grad_() for x in (q, k, v)]
        o, lse = plain(*leaves, segments, heads, kv, window)
        want = [x.float() for x in (o.detach(), *torch.autograd.grad(o, leaves, g.double()))]
        block = 16 if n < 200 else 64
        o, got_lse, *grads = on_tables(q, k, v, g, segments, heads, kv, window, block, block)
        for what, a, b in zip(("o", "dq", "dk", "dv"), (o, *grads), want):
            compare(f"attention, {name}: {what}", a, b)
        seen = ~lse.isinf()
        compare(f"attention, {name}: lse", got_lse[seen], lse[seen].float())
        if bool((got_lse.isinf() == lse.isinf()).all()) is False:
            failed.append(f"attention, {name}: rows without keys")
        if cpu:
            arrays = [x.numpy() for x in (q, k, v)] + [np.array(segments, np.int32)]
            attributes = dict(heads=heads, kv_heads=kv, window=window)
            o_cpu, lse_cpu = cpu("FlashAttention", arrays, ["o", "lse"], **attributes)
            compare(f"attention, {name}: o beside the CPU's", o, o_cpu)
            inputs = [g.numpy(), *arrays, o_cpu.numpy(), lse_cpu.numpy()]
            for what, a, b in zip("qkv", grads, cpu("FlashAttentionGrad", inputs, ["a", "b", "c"], **attributes)):
                compare(f"attention, {name}: d{what} beside the CPU's", a, b)


def check_rows(cpu):
    torch.manual_seed(1)
    n, heads, kv, size, half = 5, 3, 2, 20, 8
    qkv, angle = torch.randn(n, (heads + 2 * kv) * size), torch.randn(n, half)
    cos, sin = angle.cos(), angle.sin()
    q, k, v = torch.empty(n, heads * size), torch.empty(n, kv * size), torch.empty(n, kv * size)
    grid, sizes = (n, 4), dict(D=size, DB=32, B=2)
    rows.rope_split[grid](qkv, cos, sin, q, k, v, heads, kv, half, **sizes)

    def rope(x):
        x = x.reshape(n, heads + 2 * kv, size)
        a, b, rest = x.split([half, half, size - 2 * half], -1)
        c, s = cos[:, None], sin[:, None]
        turned = torch.cat([a * c - b * s, b * c + a * s, rest], -1)
        return torch.cat([turned[:, : heads + kv], x[:, heads + kv :]], 1).reshape(n, -1)

    leaf = qkv.clone().requires_grad_()
    want, g = rope(leaf), torch.randn(n, (heads + 2 * kv) * size)
    compare("RopeSplit", torch.cat([q, k, v], 1), want.detach())
    parts = [x.contiguous() for x in g.split([heads * size, kv * size, kv * size], 1)]
    dqkv = torch.empty_like(qkv)
    rows.rope_split_grad[grid](*parts, cos, sin, dqkv, heads, kv, half, **sizes)
    compare("RopeSplitGrad", dqkv, torch.autograd.grad(want, leaf, g)[0])

    width, epsilon = 300, 1e-5
    x, y, w, dn, dsum = (torch.randn(n, width) for _ in range(5))
    w = w[0].contiguous()
    leaf = x.clone().requires_grad_()
    total = leaf + y
    normed = total * torch.rsqrt((total * total).mean(-1, keepdim=True) + epsilon) * w
    s, out, rstd, dx, dy = (torch.empty_like(t) for t in (x, x, x[:, 0], x, x))
    rows.add_rms_norm[(n,)](x, y, w, s, out, rstd, width, epsilon, HAS=True, B=128)
    compare("AddRMSNorm", out, normed.detach())
    compare("AddRMSNorm: sum", s, total.detach())
    for has in (True, False):
        rows.add_rms_norm_grad[(n,)](dn, dsum, out, w, rstd, dx, dy, width, HAS=has, B=128)
        given = [dn, dsum if has else torch.zeros_like(dsum)]
        (want,) = torch.autograd.grad([normed, total], leaf, given, retain_graph=True)
        compare(f"RMSNormGrad, dsum={has}", dx, want)
        compare(f"RMSNormGrad, dsum={has}: dy", dy, want)
    if cpu:
        got = cpu("AddRMSNorm", [t.numpy() for t in (x, y, w)], ["s", "n", "r"], epsilon=epsilon)
        for what, a, b in zip(("sum", "rows", "rstd"), (s, out, rstd), got):
            compare(f"AddRMSNorm: {what} beside the CPU's", a, b)
        got = cpu("RMSNormGrad", [t.numpy() for t in (dn, dsum, out, w, rstd)], ["dx", "dy"])
        rows.add_rms_norm_grad[(n,)](dn, dsum, out, w, rstd, dx, dy, width, HAS=True, B=128)
        compare("RMSNormGrad beside the CPU's", dx, got[0])

    for columns in (1, 3, 300):
        x, y = torch.randn(n, columns), torch.empty(n, columns)
        for seed, site, rate in ((7, 0, 0.25), (-(1 << 40) + 3, 5, 0.9)):
            halves = [(seed >> 32 * half & 0xFFFFFFFF) for half in (0, 1)]
            low, high, threshold = (v - (v >> 31 << 32) for v in (*halves, int(float(np.float32(rate)) * 2**32)))
            scale = float(1 / (1 - np.float32(rate)))
            rows.dropout[(n, 1)](x, y, low, high, site, threshold, scale, columns, B=128)
            compare(f"Dropout of {columns} columns, rate {rate}: kept", y[y != 0], (x * scale)[y != 0])
            if columns == 300 and abs(float((y == 0).float().mean()) - rate) > 0.03:
                failed.append(f"Dropout drops {float((y == 0).float().mean())}, want {rate}")
            if cpu:
                got = cpu("Dropout", [x.numpy(), np.array([seed])], ["y"], site=site, rate=rate)[0]
                compare(f"Dropout of {columns} columns, rate {rate}, beside the CPU's", y, got)

    leaf = torch.randn(n, 2 * width).requires_grad_()
    gate, up = leaf.chunk(2, 1)
    want = torch.nn.functional.silu(gate) * up
    out, dx, grid = torch.empty(n, width), torch.empty(n, 2 * width), (n, -(-width // 128))
    rows.swiglu[grid](leaf.detach(), out, width, B=128)
    compare("SwiGLU", out, want.detach())
    rows.swiglu_grad[grid](dn, leaf.detach(), dx, width, B=128)
    compare("SwiGLUGrad", dx, torch.autograd.grad(want, leaf, dn)[0])
    if cpu:
        compare("SwiGLU beside the CPU's", out, cpu("SwiGLU", [leaf.detach().numpy()], ["y"])[0])


def main():
    torch.set_num_threads(1)
    cpu = library(sys.argv[1]) if len(sys.argv) > 1 else None
    check_attention(cpu)
    check_half()
    check_rows(cpu)
    if failed:
        sys.exit(f"{len(failed)} differ: {', '.join(failed)}")
    print("all are the same" + ("" if cpu else "; the library was not asked"))


if __name__ == "__main__":
    main()
