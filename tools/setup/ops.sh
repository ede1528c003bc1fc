#!/usr/bin/env bash
# Compiles the fused operators of ops/ into build/lib/libassay_ops.so, against the C header that onnxruntime_go brings.
# All else works without them, so that a machine without a C++ compiler gets none, unless it is asked for them by name.
. "$(dirname "$0")/common.sh"
if [ "${1:-}" = optional ] && ! command -v g++ >/dev/null; then
	say "no fused operators: g++ is not installed"
	exit 0
fi
need g++ g++
kernels=$([ ! -e build/ops/kernels.inc ] || echo build/ops/kernels.inc) # those for GPUs, if `make cuda-ops` compiled them
sources=$(cat ops/*.h ops/*.cc tools/setup/ops.sh $kernels | sha256sum)
done_already ops "$sources" && [ -e build/lib/libassay_ops.so ] && exit 0
say "compiling the fused operators"
header=$(go list -m -f '{{.Dir}}' github.com/yalue/onnxruntime_go)
[ -n "$header" ] || header=$(go mod download -json github.com/yalue/onnxruntime_go | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
g++ -std=c++17 -O3 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -static-libstdc++ -static-libgcc -shared "-I$header" \
	${kernels:+-Ibuild/ops -Wa,-Ibuild/ops} ops/*.cc -o build/lib/libassay_ops.so.new -ldl
mv build/lib/libassay_ops.so.new build/lib/libassay_ops.so
finished "$sources"
