#!/usr/bin/env bash
# Puts ONNX Runtime with its CUDA provider (0.3 GB), the other libraries of build/lib, and stubs of CUDA's libraries into
# build/stub/lib: see tools/gpu/stub.py.
. "$(dirname "$0")/common.sh"
version=1.31.1-$(cat tools/gpu/stub.c tools/gpu/stub.py | sha256sum | cut -c1-16)
if done_already stub "$version"; then exit 0; fi
need gcc gcc
need nm binutils
say "downloading ONNX Runtime's CUDA provider"
fetch_wheel tools/setup/stub.txt --platform manylinux_2_28_x86_64 --python-version 3.11
unpack_wheel stub "onnxruntime/capi/libonnxruntime*" build/stub/lib
for library in build/lib/*.so*; do
	case $library in *libonnxruntime*) ;; *) ln -sf "$root/$library" build/stub/lib/ ;; esac
done
python3 tools/gpu/stub.py build/stub --build
rm -rf build/wheels/stub
finished "$version"
