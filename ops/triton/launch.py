"""Runs the library's GPU operators without a GPU: ONNX Runtime computes their nodes on the CPU, a fake driver
(driver.c) passes their launches to Triton's interpreter, and results are compared with formulas in torch.

    python ops/triton/launch.py build/lib/libassay_ops.so build/ops

This tests everything except the GPU: the cubin of each kernel, its name and declared arguments, tables, grids,
missing inputs and omitted outputs. Numbers are rounded to bfloat16 between operators, and computed in float32 within
them, since the interpreter cannot multiply bfloat16.
"""

import ctypes
import os
import re
import struct
import subprocess
import sys
import tempfile

os.environ["TRITON_INTERPRET"] = "1"
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np  # noqa: E402
import torch  # noqa: E402

import compile as compiled  # noqa: E402
from check import CASES, compare, failed, plain  # noqa: E402

ARCH = "sm_90"
LIMIT = 4e-3  # relative to the norm: bfloat16 has 8 bits
WRITTEN = {"O", "LSE", "OWN", "DQ", "DK", "DV", "OUT", "OUT_Q", "OUT_K", "OUT_V", "SUM", "N", "RSTD", "DX", "DY", "Y"}
KINDS = {"*bf16": torch.bfloat16, "*fp32": torch.float32, "*i32": torch.int32}
seen, problems = set(), []


def driver(folder):
    """Compiles and loads the fake driver; the operators load it by its path."""
    path = os.path.join(folder, "libdriver.so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "driver.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", source, "-o", path], check=True)
    os.environ["ASSAY_OPS_DRIVER"] = path
    d = ctypes.CDLL(path)
    d.fake_allocated.restype = ctypes.c_long
    d.fake_size.restype, d.fake_size.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    return d


def read_table(folder):
    """Entries of kernels.inc for ARCH: variant, function, cubin, threads and shared memory."""
    with open(os.path.join(folder, "kernels.bin"), "rb") as f:
        cubins = f.read()
    with open(os.path.join(folder, "kernels.inc")) as f:
        text = f.read()
    entries = [re.match(r'{"(\w+)", (\d+), "(\w+)", (\d+), (\d+), (\d+), ', line).groups() for line in text.splitlines()]
    variants = {v[0]: v for v in compiled.variants(ARCH)}
    table = []
    for i, (name, arch, function, at, threads, shared) in enumerate(entries):
        end = int(entries[i + 1][3]) if i + 1 < len(entries) else len(cubins)
        if f"sm_{arch}" == ARCH:
            table.append((variants[name], function, cubins[int(at) : end], int(threads), int(shared)))
    return table


def parameters(cubin):
    """Offsets and sizes of a kernel's arguments, from the ELF section .nv.info.KERNEL."""
    offset, size, count, names = (*struct.unpack_from("<Q", cubin, 40), *struct.unpack_from("<HHH", cubin, 58))
    sections = [struct.unpack_from("<IIQQQQ", cubin, offset + i * size) for i in range(count)]
    strings = sections[names][4]
    for name, _, _, _, at, length in sections:
        end = cubin.index(b"\0", strings + name)
        if not cubin[strings + name : end].startswith(b".nv.info."):
            continue
        found, i = {}, at
        while i < at + length:
            form, kind, value = struct.unpack_from("<BBH", cubin, i)
            i += 4
            if form == 4:  # value bytes follow
                if kind == 0x17:  # an argument: index, position, offset, and flags that include its size
                    _, ordinal, start, flags = struct.unpack_from("<IHHI", cubin, i)
                    found[ordinal] = (start, flags >> 18 & 0x3FFF)
                i += value
        return [found[k] for k in sorted(found)]
    raise SystemExit("a cubin does not describe its arguments")


def tensors(signature, values, sizes):
    """Arguments as torch tensors over the memory behind pointers, and the pairs to write back after the launch."""
    out, back = [], []
    for (name, kind), value in zip(signature.items(), values):
        if not kind.startswith("*"):
            out.append(value)
            continue
        width = 2 if kind == "*bf16" else 4
        if not value:
            out.append(torch.zeros(1))  # absent according to the kernel's constants
            continue
        memory = np.ctypeslib.as_array((ctypes.c_uint8 * (sizes[name] * width)).from_address(value))
        kept = torch.from_numpy(memory).view(KINDS[kind])
        out.append(kept.float() if kind == "*bf16" else kept.clone())
        if name in WRITTEN:
            back.append((kept, out[-1]))
    return out, back


def emulate(table, sizes, fake):
    """The function that a launch calls. sizes: element counts of the running operator's pointers, by argument."""

    def launched(image, name, x, y, threads, shared, arguments):
        try:
            return launch(image, name.decode(), x, y, threads, shared, arguments)
        except BaseException as e:  # noqa: BLE001: ctypes cannot raise it
            problems.append(f"{name.decode()}: {type(e).__name__}: {e}")
            return 1

    def launch(image, name, x, y, threads, shared, arguments):
        entry = next(e for e in table if e[1] == name and ctypes.string_at(image, len(e[2])) == e[2])
        (variant, kernel, constants, _, _), _, cubin, want_threads, want_shared = entry
        if (threads, shared) != (want_threads, want_shared):
            raise ValueError(f"{threads} threads and {shared} bytes, want {want_threads} and {want_shared}")
        signature = {k: t for k, t in compiled.SIGNATURES[kernel].items()}
        declared = [size for _, size in parameters(cubin)]
        want = [8 if t.startswith("*") else 4 for t in signature.values()] + [8, 8]
        if declared != want:
            raise ValueError(f"the cubin declares arguments of {declared} bytes, want {want}")
        values = []
        for i, kind in enumerate(signature.values()):
            form = ctypes.c_uint64 if kind.startswith("*") else ctypes.c_float if kind == "fp32" else ctypes.c_int32
            values.append(form.from_address(arguments[i]).value)
        if any(ctypes.c_uint64.from_address(arguments[len(signature) + i]).value for i in range(2)):
            raise ValueError("scratch memory is given")
        local = dict(sizes)
        if "TILES" in signature:  # one allocation: tiles, segments, list
            begin = {n: values[list(signature).index(n)] for n in ("SEGMENTS", "LIST", "TILES")}
            end = begin["TILES"] + fake.fake_size(begin["TILES"])
            local |= {n: (end - p) // 4 for n, p in begin.items()}
        if kernel == "attention_dkv_part":
            given = dict(zip(signature, values))
            local |= {n: sizes[n] * given["group"] // given["each"] for n in ("DK", "DV")}
        if kernel == "attention_sum":
            local |= dict(X=values[2] * values[3], Y=values[3])
        args, back = tensors(signature, values, local)
        function = compiled.source_of(kernel)
        function[(x, y)](*args, **constants)
        for kept, got in back:
            kept.copy_(got)
        seen.add(variant)
        return 0

    form = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, *[ctypes.c_uint] * 4, ctypes.POINTER(ctypes.c_void_p)
    )
    return form(launched)


def session(library):
    """A function that runs one operator; the kind of an input or output gives its type (b: bfloat16)."""
    import onnxruntime
    from onnx import TensorProto, helper

    kinds = {"b": TensorProto.BFLOAT16, "f": TensorProto.FLOAT, "i": TensorProto.INT32, "l": TensorProto.INT64}

    def run(op, inputs, outputs, **attributes):
        """inputs are (kind, tensor) or None, outputs are kinds, or None for an omitted one."""
        nodes, declared, feeds, names = [], [], {}, []
        for i, one in enumerate(inputs):
            if one is None:
                names.append("")
                continue
            kind, value = one
            feeds[f"x{i}"] = value.numpy()
            declared.append(
                helper.make_tensor_value_info(f"x{i}", kinds["f" if kind == "b" else kind], list(value.shape))
            )
            names.append(f"x{i}" if kind != "b" else f"n{i}")
            if kind == "b":
                nodes.append(helper.make_node("Cast", [f"x{i}"], [f"n{i}"], to=TensorProto.BFLOAT16))
        made = [f"m{i}" if kind else "" for i, kind in enumerate(outputs)]
        nodes.append(helper.make_node(op, names, made, domain="assay", **attributes))
        for name in filter(None, made):
            nodes.append(helper.make_node("Cast", [name], [f"y{name}"], to=TensorProto.FLOAT))
        results = [helper.make_tensor_value_info(f"y{name}", TensorProto.FLOAT, None) for name in filter(None, made)]
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid("assay", 1)]
        model = helper.make_model(helper.make_graph(nodes, "g", declared, results), opset_imports=opsets)
        model.ir_version = 10
        options = onnxruntime.SessionOptions()
        options.register_custom_ops_library(library)
        s = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        got = iter(s.run(None, feeds))
        return [torch.from_numpy(next(got)) if kind else None for kind in outputs]

    return run


def rounded(*shape):
    return torch.randn(*shape).bfloat16().float()


def check_attention(run, sizes):
    for name, (segments, queries, keys, heads, kv, size, window) in CASES.items():
        size = {64: 64, 80: 80, 72: 72}.get(size, 128)  # the sizes that kernels are compiled for
        if queries > 500:
            segments, queries, keys = [[0, 130, 0, 130, 0], [130, 150, 0, 130, 130], [130, 150, 130, 150, 0]], 280, 280
        torch.manual_seed(1)
        q, k, v = (rounded(n, h * size).requires_grad_() for n, h in ((queries, heads), (keys, kv), (keys, kv)))
        g = rounded(queries, heads * size)
        o, lse = plain(q, k, v, segments, heads, kv, window)
        gradients = torch.autograd.grad(o, (q, k, v), g)
        q, k, v = (x.detach() for x in (q, k, v))
        sizes |= dict(Q=q.numel(), K=k.numel(), V=v.numel(), O=q.numel(), G=q.numel(), DQ=q.numel())
        sizes |= dict(DK=k.numel(), DV=v.numel(), LSE=lse.numel(), OWN=lse.numel())
        table = torch.tensor(segments, dtype=torch.int32)
        at = dict(heads=heads, kv_heads=kv, window=window)
        qkv = [("b", q), ("b", k), ("b", v), ("i", table)]
        got, lse_got = run("FlashAttention", qkv, "bf", **at)
        compare(f"FlashAttention: {name}", got, o.detach(), LIMIT)
        there = ~lse.detach().isinf()
        compare(f"FlashAttention: {name}: lse", lse_got[there], lse.detach()[there], LIMIT)
        backward = [("b", g), *qkv, ("b", o.detach()), ("f", lse.detach())]
        for label, d, want in zip(("q", "k", "v"), run("FlashAttentionGrad", backward, "bbb", **at), gradients):
            compare(f"FlashAttentionGrad: {name}: {label}", d, want, LIMIT)
    for size in compiled.HEADS:
        for kv in (1, 2):  # gradients of k and v in parts, and in one piece
            torch.manual_seed(1)
            q, k, v = (rounded(40, h * size).requires_grad_() for h in (2, kv, kv))
            segments = [[0, 15, 0, 15, 0], [15, 25, 0, 15, 15], [15, 25, 15, 25, 0]]
            o, lse = plain(q, k, v, segments, 2, kv, 0)
            g = rounded(40, 2 * size)
            gradients = torch.autograd.grad(o, (q, k, v), g)
            q, k, v = (x.detach() for x in (q, k, v))
            sizes |= dict(Q=q.numel(), K=k.numel(), V=v.numel(), O=q.numel(), G=q.numel(), DQ=q.numel())
            sizes |= dict(DK=k.numel(), DV=v.numel(), LSE=lse.numel(), OWN=lse.numel())
            at = dict(heads=2, kv_heads=kv, window=0)
            qkv = [("b", q), ("b", k), ("b", v), ("i", torch.tensor(segments, dtype=torch.int32))]
            (got,) = run("FlashAttention", qkv, "b", **at)
            compare(f"FlashAttention, heads of {size}, {kv} of keys", got, o.detach(), LIMIT)
            backward = [("b", g), *qkv, ("b", o.detach()), ("f", lse.detach())]
            for label, d, want in zip(("q", "k", "v"), run("FlashAttentionGrad", backward, "bbb", **at), gradients):
                compare(f"FlashAttentionGrad, heads of {size}, {kv} of keys: {label}", d, want, LIMIT)
    (only,) = run("FlashAttention", qkv, "b", **at)
    compare("FlashAttention without lse", only, o.detach(), LIMIT)
    _, only, _ = run("FlashAttentionGrad", backward, [None, "b", None], **at)
    compare("FlashAttentionGrad of k alone", only, gradients[1], LIMIT)


def check_rope(run, sizes):
    for size, half in ((64, 32), (72, 36), (80, 40), (128, 64), (128, 20)):
        n, heads, kv = 5, 3, 2
        all_heads = heads + 2 * kv
        torch.manual_seed(2)
        qkv = rounded(n, all_heads * size).requires_grad_()
        angle = torch.randn(n, half)
        cos, sin = angle.cos(), angle.sin()
        x = qkv.reshape(n, all_heads, size)
        a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
        c, s = cos[:, None], sin[:, None]
        turned = torch.cat([a * c - b * s, b * c + a * s, rest], -1)
        want = turned[:, :heads], turned[:, heads : heads + kv], x[:, heads + kv :]
        want = [w.reshape(n, -1) for w in want]
        sizes |= dict(QKV=qkv.numel(), OUT=qkv.numel(), COS=cos.numel(), SIN=sin.numel())
        sizes |= {f"{p}{k}": w.numel() for p in ("OUT_", "D") for k, w in zip("QKV", want)}
        turn = [("f", cos), ("f", sin)]
        got = run("RopeSplit", [("b", qkv.detach()), *turn], "bbb", heads=heads, kv_heads=kv)
        for label, g, w in zip("qkv", got, want):
            compare(f"RopeSplit, heads of {size}, {half} turned: {label}", g, w.detach(), LIMIT)
        gradients = [rounded(*w.shape) for w in want]
        for missing in (None, 0, 2):
            given = [torch.zeros_like(g) if i == missing else g for i, g in enumerate(gradients)]
            (w,) = torch.autograd.grad(want, qkv, given, retain_graph=True)
            inputs = [None if i == missing else ("b", g) for i, g in enumerate(gradients)]
            (got,) = run("RopeSplitGrad", [*inputs, *turn], "b", heads=heads, kv_heads=kv)
            compare(f"RopeSplitGrad, heads of {size}, without {missing}", got, w, LIMIT)


def check_norm(run, sizes):
    for n, width in ((3, 40), (2, 2500)):
        torch.manual_seed(3)
        x, y, w, dn, dsum = torch.randn(n, width), rounded(n, width), torch.randn(width), rounded(n, width), None
        dsum = torch.randn(n, width)
        sizes |= dict(W=width, RSTD=n, **dict.fromkeys(("X", "Y", "SUM", "N", "DN", "DSUM", "DX", "DY"), n * width))
        leaf = x.clone().requires_grad_()
        total = leaf + y
        normed = total * torch.rsqrt((total * total).mean(-1, keepdim=True) + 1e-6) * w
        rstd = torch.rsqrt((total * total).mean(-1) + 1e-6).detach()
        inputs = [("f", x), ("b", y), ("f", w)]
        for label, got, want in zip(
            ("sum", "rows", "rstd"), run("AddRMSNorm", inputs, "fbf", epsilon=1e-6), (total, normed, rstd)
        ):
            compare(f"AddRMSNorm, {width} columns: {label}", got, want.detach(), LIMIT)
        _, got, _ = run("AddRMSNorm", inputs, [None, "b", None], epsilon=1e-6)
        compare(f"AddRMSNorm, {width} columns, rows alone", got, normed.detach(), LIMIT)
        tail = [("b", normed.detach()), ("f", w), ("f", rstd)]
        zero = torch.zeros_like(dsum)
        for label, a, b in (("both", dn, dsum), ("rows", dn, None), ("sum", None, dsum)):
            given = [zero if a is None else a, zero if b is None else b]
            (want,) = torch.autograd.grad([normed, total], leaf, given, retain_graph=True)
            one = [None if a is None else ("b", a), None if b is None else ("f", b)]
            dx, dy = run("RMSNormGrad", [*one, *tail], "fb")
            compare(f"RMSNormGrad of {label}: dx", dx, want, LIMIT)
            compare(f"RMSNormGrad of {label}: dy", dy, want, LIMIT)
            (_, dy) = run("RMSNormGrad", [*one, *tail], [None, "b"])
            compare(f"RMSNormGrad of {label}: dy alone", dy, want, LIMIT)


def check_dropout(run, sizes):
    for n, width in ((3, 24), (2, 2500)):
        torch.manual_seed(5)
        x, seed = rounded(n, width) + 4, torch.tensor([-5 << 33 | 3])
        sizes |= dict(X=x.numel(), Y=x.numel())
        (got,) = run("Dropout", [("b", x), ("l", seed), ("b", x)], "b", site=2, rate=0.5)
        (own,) = run("Dropout", [("f", x), ("l", seed)], "f", site=2, rate=0.5)
        compare(f"Dropout, {width} columns, beside the CPU's", got, own, LIMIT)
        if not 0.3 < float((got == 0).float().mean()) < 0.7:
            problems.append(f"Dropout drops {float((got == 0).float().mean())} of {n} rows, want about half")


def check_swiglu(run, sizes):
    for n, half in ((3, 24), (2, 2100)):
        torch.manual_seed(4)
        x, dy = rounded(n, 2 * half).requires_grad_(), rounded(n, half)
        gate, up = x.chunk(2, 1)
        want = torch.nn.functional.silu(gate) * up
        sizes |= dict(X=x.numel(), Y=dy.numel(), DY=dy.numel(), DX=x.numel())
        (got,) = run("SwiGLU", [("b", x.detach())], "b")
        compare(f"SwiGLU, {half} columns", got, want.detach(), LIMIT)
        (got,) = run("SwiGLUGrad", [("b", dy), ("b", x.detach())], "b")
        compare(f"SwiGLUGrad, {half} columns", got, torch.autograd.grad(want, x, dy)[0], LIMIT)


def main():
    torch.set_num_threads(1)
    table, sizes = read_table(sys.argv[2]), {}
    with tempfile.TemporaryDirectory() as folder:
        fake = driver(folder)
        keep = emulate(table, sizes, fake)
        fake.fake_driver(int(ARCH.removeprefix("sm_")) // 10, keep)
        run = session(sys.argv[1])
        for check in (check_attention, check_rope, check_norm, check_dropout, check_swiglu):
            try:
                check(run, sizes)
            except Exception as e:  # noqa: BLE001
                problems.append(f"{check.__name__}: {e}")
    if left := fake.fake_allocated():
        problems.append(f"{left} allocations were not freed, though all sessions are closed")
    never = {e[0][0] for e in table} - seen
    print(*problems, *(f"never launched: {n}" for n in sorted(never)), sep="\n")
    if failed or problems:
        sys.exit(f"{len(failed)} differ: {', '.join(failed)}")
    print("all are the same")


main()
