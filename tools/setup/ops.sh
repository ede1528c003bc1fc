#!/usr/bin/env bash
# Compiles the fused operators of ops/ into build/lib/libassay_ops.so, against the C header in onnxruntime_go. Everything
# else works without them, so they are skipped without a C++ compiler unless they are requested explicitly.
# ops.sh MACHINE: compiles the released library for MACHINE, with zig for glibc 2.28, into build/MACHINE/lib.
. "$(dirname "$0")/common.sh"
if [ "${1:-}" = optional ] && ! command -v g++ >/dev/null; then
	say "no fused operators: g++ is not installed"
	exit 0
fi
machine=${1:-}
machine=${machine#optional}
if [ -n "$machine" ]; then
	compile=(build/zig/ziglang/zig c++ -target "$machine-linux-gnu.2.28" -Wl,--strip-all -g0)
	lib=build/$machine/lib name=ops-$machine
else
	need g++ g++
	compile=(g++ -static-libstdc++ -static-libgcc) lib=build/lib name=ops
fi
kernels=$([ ! -e build/ops/kernels.inc ] || echo build/ops/kernels.{inc,bin}) # the GPU kernels, if `make cuda-ops` compiled them
sources=$(cat ops/*.h ops/*.cc tools/setup/ops.sh $kernels | sha256sum)
done_already "$name" "$sources" && [ -e "$lib/libassay_ops.so" ] && exit 0
say "compiling the fused operators"
header=$(go list -m -f '{{.Dir}}' github.com/yalue/onnxruntime_go)
[ -n "$header" ] || header=$(go mod download -json github.com/yalue/onnxruntime_go | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
"${compile[@]}" -std=c++17 -O3 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -shared "-I$header" \
	${kernels:+-Ibuild/ops -Wa,-Ibuild/ops} ops/*.cc -o "$lib/libassay_ops.so.new" -ldl
mv "$lib/libassay_ops.so.new" "$lib/libassay_ops.so"
finished "$sources"
