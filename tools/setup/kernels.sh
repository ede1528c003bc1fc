#!/usr/bin/env bash
# Compiles the GPU kernels of the fused operators into build/ops, without a GPU.
. "$(dirname "$0")/common.sh"
tools/setup/triton.sh
sources=$(cat ops/triton/{attention,rows,compile}.py tools/setup/{kernels,triton}.sh | sha256sum)
done_already kernels "$sources" && [ -e build/ops/kernels.inc ] && [ -e build/ops/compiled ] && exit 0
say "compiling kernels for GPUs"
mkdir -p build/ops
if ! PYTHONPATH=build/triton TRITON_CACHE_DIR=build/triton/cache python3 -B ops/triton/compile.py build/ops >build/ops/compiled 2>&1; then
	cat build/ops/compiled >&2
	exit 1
fi
finished "$sources"
