"""Compiles the GPU kernels, without a GPU, and lists the registers and shared memory of each.

    python ops/triton/compile.py build/ops [sm_80 sm_90 sm_100]

It writes kernels.bin, the concatenated cubins, and kernels.inc, their table, which are compiled into ops/device.cc. It
fails if a kernel needs more shared memory than a block may have, or spills more registers than SPILLS allows.
"""

import os
import re
import subprocess
import sys

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # it contains the path of the checkout

import attention  # noqa: E402
import rows  # noqa: E402
import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.backends.nvidia.compiler import get_ptxas  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

SHARED = {"sm_80": 163 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10}  # bytes per block (CUDA C guide, table 27)
HEADS = (64, 72, 80, 128)
ROW = "*bf16"

# Argument types of the kernels. Their other arguments are constants: see variants.
TABLES = dict(SEGMENTS="*i32", LIST="*i32", TILES="*i32", queries="i32", heads="i32", group="i32", window="i32")
TAIL = dict(**TABLES, scale="fp32")
OF_KEYS = dict(**TAIL, keys="i32", each="i32")
SIGNATURES = {
    "attention": dict(Q=ROW, K=ROW, V=ROW, O=ROW, LSE="*fp32", **TAIL),
    "attention_own": dict(G=ROW, O=ROW, OWN="*fp32", queries="i32", heads="i32"),
    "attention_dq": dict(G=ROW, Q=ROW, K=ROW, V=ROW, LSE="*fp32", OWN="*fp32", DQ=ROW, **TAIL),
    "attention_dkv": dict(G=ROW, Q=ROW, K=ROW, V=ROW, LSE="*fp32", OWN="*fp32", DK=ROW, DV=ROW, **OF_KEYS),
    "attention_dkv_part": dict(G=ROW, Q=ROW, K=ROW, V=ROW, LSE="*fp32", OWN="*fp32", DK="*fp32", DV="*fp32", **OF_KEYS),
    "attention_sum": dict(X="*fp32", Y=ROW, parts="i32", n="i32"),
    "rope_split": dict(
        QKV=ROW, COS="*fp32", SIN="*fp32", OUT_Q=ROW, OUT_K=ROW, OUT_V=ROW, heads="i32", kv="i32", half="i32"
    ),
    "rope_split_grad": dict(
        DQ=ROW, DK=ROW, DV=ROW, COS="*fp32", SIN="*fp32", OUT=ROW, heads="i32", kv="i32", half="i32"
    ),
    "add_rms_norm": dict(
        X="*fp32", Y=ROW, W="*fp32", SUM="*fp32", N=ROW, RSTD="*fp32", width="i32", epsilon="fp32"
    ),
    "add_rms_norm_grad": dict(
        DN=ROW, DSUM="*fp32", N=ROW, W="*fp32", RSTD="*fp32", DX="*fp32", DY=ROW, width="i32"
    ),
    "dropout": dict(
        X=ROW, Y=ROW, low="i32", high="i32", site="i32", threshold="i32", scale="fp32", width="i32"
    ),
    "swiglu": dict(X=ROW, Y=ROW, half="i32"),
    "swiglu_grad": dict(DY=ROW, X=ROW, DX=ROW, half="i32"),
}


# Rows of queries and of keys in a tile, warps and stages: on sm_90 the fastest that were tried (docs/decisions/fused.md).
ATTENTION = {"sm_80": (64, 32, 4, 2), "sm_90": (64, 64, 4, 3), "sm_100": (128, 64, 8, 2)}
DQ = {"sm_80": (64, 32, 4, 2), "sm_90": (64, 64, 4, 2), "sm_100": (128, 32, 8, 2)}
DKV = {"sm_80": (32, 64, 8, 2), "sm_90": (32, 64, 4, 3), "sm_100": (32, 64, 8, 2)}
SPILLS = {"attention sm_90": 32, "attention_dkv sm_90": 96, "attention_dkv sm_100": 8}  # allowed bytes: tiles without spills were slower


def tiled(sizes, tiles):
    queries, keys, warps, stages = tiles
    return dict(**sizes, BM=queries, BN=keys), warps, stages


def variants(arch):
    """Name, kernel, constants, warps and stages of each compiled kernel."""
    for size in HEADS:
        d = dict(D=size, DB=1 << (size - 1).bit_length())
        yield f"attention_{size}", "attention", *tiled(d, ATTENTION[arch])
        yield f"attention_own_{size}", "attention_own", dict(**d, BM=64), 4, 1
        yield f"attention_dq_{size}", "attention_dq", *tiled(d, DQ[arch])
        yield f"attention_dkv_{size}", "attention_dkv", *tiled(d, DKV[arch])
        yield f"attention_dkv_part_{size}", "attention_dkv_part", *tiled(d, DKV[arch])
        yield f"rope_split_{size}", "rope_split", dict(**d, B=8), 4, 1
        yield f"rope_split_grad_{size}", "rope_split_grad", dict(**d, B=8), 4, 1
    yield "attention_sum", "attention_sum", dict(B=1024), 4, 1
    yield "add_rms_norm", "add_rms_norm", dict(HAS=False, B=1024), 8, 1
    yield "add_rms_norm_sum", "add_rms_norm", dict(HAS=True, B=1024), 8, 1
    yield "add_rms_norm_grad", "add_rms_norm_grad", dict(HAS=False, B=1024), 8, 1
    yield "add_rms_norm_grad_dsum", "add_rms_norm_grad", dict(HAS=True, B=1024), 8, 1
    yield "dropout", "dropout", dict(B=256), 4, 1
    yield "swiglu", "swiglu", dict(B=1024), 4, 1
    yield "swiglu_grad", "swiglu_grad", dict(B=1024), 4, 1


def source_of(kernel):
    """The function that a kernel is compiled from: kernels of parts are the same function with other types."""
    name = kernel.removesuffix("_part")
    return getattr(attention, name, None) or getattr(rows, name)


def build(kernel, constants, warps, stages, capability):
    signature = {**SIGNATURES[kernel], **{name: "constexpr" for name in constants}}
    function = source_of(kernel)
    if list(signature) != function.arg_names:
        raise SystemExit(f"{kernel} has the arguments {function.arg_names}, not {list(signature)}")
    aligned = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(signature.values()) if t.startswith("*")}
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=aligned)
    options = dict(num_warps=warps, num_stages=stages)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def usage(ptx, arch, scratch):
    """Registers and spilled bytes, as counted by ptxas."""
    with open(scratch, "w") as f:
        f.write(ptx)
    tool = get_ptxas(int(arch.removeprefix("sm_"))).path
    arch += "a" if arch in ("sm_90", "sm_100") else ""
    text = subprocess.run([tool, "-v", "-arch", arch, scratch, "-o", os.devnull], capture_output=True, text=True)
    if text.returncode:
        raise SystemExit(f"ptxas: {text.stderr}")
    found = re.search(r"(\d+) bytes spill stores", text.stderr), re.search(r"Used (\d+) registers", text.stderr)
    return int(found[1][1]), int(found[0][1])


def products(ptx):
    """The instruction that multiplies tiles; "": none."""
    return next((name for name in ("tcgen05.mma", "wgmma", "mma.sync") if name in ptx), "")


def main():
    out, archs = sys.argv[1], sys.argv[2:] or list(SHARED)
    os.makedirs(out, exist_ok=True)
    wrong, table, cubins = [], [], b""
    print(f"{'kernel':26} {'GPU':8} {'registers':>9} {'spilled':>8} {'shared':>8} {'cubin':>8} products by")
    for arch in archs:
        for name, kernel, constants, warps, stages in variants(arch):
            k = build(kernel, constants, warps, stages, int(arch.removeprefix("sm_")))
            registers, spilled = usage(k.asm["ptx"], arch, os.path.join(out, "scratch.ptx"))
            shared, cubin = k.metadata.shared, k.asm["cubin"]
            row = f"{name:26} {arch:8} {registers:9} {spilled:8} {shared:8} {len(cubin):8}"
            print(row, products(k.asm["ptx"]), flush=True)
            if k.metadata.global_scratch_size or k.metadata.profile_scratch_size or k.metadata.tmem_size > 512:
                raise SystemExit(f"{name} on {arch} needs scratch memory, which the launcher does not provide")
            table.append(
                f'{{"{name}", {arch.removeprefix("sm_")}, "{k.metadata.name}", {len(cubins)}, {32 * warps}, {shared}, '
                f"{constants.get('BM', 0)}, {constants.get('BN', 0)}, {constants.get('B', 0)}}},"
            )
            cubins += cubin + bytes(-len(cubin) % 64)
            if shared > SHARED[arch]:
                wrong.append(f"{name} on {arch}: {shared} bytes of shared memory, at most {SHARED[arch]}")
            if spilled > SPILLS.get(f"{kernel.removesuffix('_part')} {arch}", 0):
                wrong.append(f"{name} on {arch}: {spilled} bytes spilled")
    os.remove(os.path.join(out, "scratch.ptx"))
    if wrong:
        sys.exit("\n".join(wrong))
    for name, content in (("kernels.bin", cubins), ("kernels.inc", "\n".join(table + [""]).encode())):
        with open(os.path.join(out, name), "wb") as f:
            f.write(content)


if __name__ == "__main__":
    main()
