#!/usr/bin/env bash
# Extracts ONNX Runtime's library from its Python wheel into build/lib (Python itself is not used at run time).
# onnxruntime.sh MACHINE: extracts the library for MACHINE into build/MACHINE/lib.
. "$(dirname "$0")/common.sh"
version=1.31.1
machine=${1:-$(uname -m)} lib=build/${1:+$1/}lib name=onnxruntime${1:+-$1}
if done_already "$name" "$version"; then exit 0; fi
say "downloading ONNX Runtime $version"
fetch_wheel tools/setup/onnxruntime.txt --implementation cp --python-version 3.11 --abi cp311 --platform "manylinux_2_28_$machine"
unpack_wheel onnxruntime "onnxruntime/capi/libonnxruntime.so.$version" "$lib"
unpack_wheel onnxruntime "onnxruntime/capi/libonnxruntime_providers_shared.so" "$lib"
ln -sfn "libonnxruntime.so.$version" "$lib/libonnxruntime.so"
rm -rf build/wheels/onnxruntime
finished "$version"
