"""Packs what a machine with a GPU but without a network needs to run tools/gpu: python3 tools/gpu/bundle.py OUT [ARCHITECTURE]

After `make cuda` and `make stub`, OUT gets run.sh, which unpacks an archive into $TMPDIR (/dev/shm) once and runs a command,
and the halves of the archive, of 30 MB each, in the folders 1 and 2: stripped programs, ONNX Runtime with its CUDA provider
without mixtures of experts and without the kernels of other architectures (default: 90, Hopper), and the fused operators.
If build/cupti has include and lib of the packages nvidia-cuda-cupti, -runtime and -crt 13.0, trace.so is in it. That machine
needs a driver, Python, and CUDA's libraries, such as those that pip installs with PyTorch; this one the package zstandard.

    bash OUT/run.sh tools/gpu/ten.sh bin testdata/oracle report
"""
import hashlib
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import zstandard

ROOT = Path(__file__).resolve().parents[2]
PROVIDER = "libonnxruntime_providers_cuda.so"
UNUSED = b"GroupProblemShape", b"MoeFCGemm", b"fused_moe"  # in names of kernels

RUN = r"""#!/usr/bin/env bash
# Runs a command from the root of the repository with the programs of the bundle in "bin".
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export TMPDIR=${TMPDIR:-/dev/shm}
to=$TMPDIR/assay-bundle
if ! cmp -s "$here/bundle.id" "$to/bundle.id"; then
	rm -rf "$to"
	mkdir -p "$to"
	cat "$here"/[12]/bundle.tar.xz | python3 -c 'import sys, tarfile; tarfile.open(fileobj=sys.stdin.buffer, mode="r|xz").extractall(sys.argv[1])' "$to"
	cp "$here/bundle.id" "$to"
fi
nvidia=$(python3 -c 'import glob, site, sys; print(":".join(d for s in site.getsitepackages() + [site.getusersitepackages()] for d in glob.glob(s + "/nvidia/*/lib")))')
export LD_LIBRARY_PATH=$to/lib:$nvidia${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PATH=$to/bin:$PATH
ASSAY_ONNXRUNTIME=$(echo "$to"/lib/libonnxruntime.so.*)
export ASSAY_ONNXRUNTIME ASSAY_OPS=$to/lib/libassay_ops.so BUNDLE=$to
ln -sfn "$to/bin" bin
exec "$@"
"""


def prune(raw, keep):
    """Zeroes kernels in place: those of other architectures, as CUDA takes those of the GPU's own, and unused ones."""
    at, kept, cut = 0, 0, 0
    while (at := raw.find(b"\x50\xed\x55\xba", at)) >= 0:
        version, header, size = struct.unpack_from("<HHQ", raw, at + 4)
        if (version, header) != (1, 16):
            at += 4
            continue
        entry, end = at + header, at + header + size
        while entry < end:
            header, size = struct.unpack_from("<IQ", raw, entry + 4)
            arch, = struct.unpack_from("<I", raw, entry + 28)
            code = raw[entry + header:entry + header + size]
            if arch == keep and not unused(code):
                kept += size
            else:
                raw[entry + header:entry + header + size] = bytes(size)
                cut += size
            entry += header + size
        at = end
    if not kept:
        sys.exit(f"{PROVIDER} has no kernels for {keep}")
    print(f"kernels for {keep}: {kept >> 20} MB, without {cut >> 20} MB of others")
    return raw


def unused(code):
    if code[:4] == b"\x28\xb5\x2f\xfd":
        code = zstandard.ZstdDecompressor().decompressobj().decompress(bytes(code))
    return any(name in code for name in UNUSED)


def main():
    out, keep = Path(sys.argv[1]), int((sys.argv[2:] or [90])[0])
    stub, programs = ROOT / "build/stub/lib", ROOT / "build/cuda/bin/assay"
    for path, how in ((programs, "make cuda"), (stub / PROVIDER, "make stub")):
        if not path.exists():
            sys.exit(f"{path} is missing: run `{how}` first")
    with tempfile.TemporaryDirectory() as tmp:
        work = Path(tmp)
        for folder in "bin", "lib":
            (work / folder).mkdir()
        subprocess.run(["strip", "-o", work / "bin/assay", programs], check=True)
        for name in "train", "score", "label":
            (work / "bin" / name).symlink_to("assay")
        for library in [*stub.glob("libonnxruntime*"), *(ROOT / "build/lib").glob("*.so*")]:
            if "libonnxruntime" not in library.name or library.parent == stub and "tensorrt" not in library.name:
                shutil.copy(library, work / "lib" / library.name)
        (work / "lib" / PROVIDER).write_bytes(prune(bytearray((stub / PROVIDER).read_bytes()), keep))
        if (ROOT / "build/cupti/include/cupti.h").exists():
            cupti = ROOT / "build/cupti"
            subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", work / "lib/trace.so", ROOT / "tools/gpu/trace.c", f"-I{cupti}/include",
                            f"-L{cupti}/lib", "-l:libcupti.so.13", "-lpthread"], check=True)
        packed = subprocess.run(f"tar -C {work} -c . | xz -9", shell=True, check=True, stdout=subprocess.PIPE).stdout
    for half, part in ("1", packed[:len(packed) // 2]), ("2", packed[len(packed) // 2:]):
        (out / half).mkdir(parents=True, exist_ok=True)
        (out / half / "bundle.tar.xz").write_bytes(part)
    (out / "run.sh").write_text(RUN)
    (out / "bundle.id").write_text(hashlib.sha256(packed).hexdigest() + "\n")
    print(f"{out}: {len(packed) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
