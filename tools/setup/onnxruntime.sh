#!/usr/bin/env bash
# Puts ONNX Runtime's library into build/lib, out of its Python wheel (Python itself is not used at run time).
. "$(dirname "$0")/common.sh"
version=1.31.1
if done_already onnxruntime "$version"; then exit 0; fi
say "downloading ONNX Runtime $version"
fetch_wheel tools/setup/onnxruntime.txt --implementation cp --python-version 3.11 --abi cp311 --platform "manylinux_2_28_$(uname -m)"
unpack_wheel onnxruntime "onnxruntime/capi/libonnxruntime.so.$version" build/lib
unpack_wheel onnxruntime "onnxruntime/capi/libonnxruntime_providers_shared.so" build/lib
ln -sfn "libonnxruntime.so.$version" build/lib/libonnxruntime.so
rm -rf build/wheels/onnxruntime
finished "$version"
