#!/usr/bin/env bash
# Puts ONNX Runtime with its CUDA provider (0.3 GB), the other libraries of build/lib, and stubs of CUDA's libraries into
# build/stub/lib: see tools/gpu/stub.py.
. "$(dirname "$0")/common.sh"
release=1.31.1
version=$release-$(cat tools/gpu/stub.c tools/gpu/stub.py tools/setup/stub.{sh,txt} | sha256sum | cut -c1-16)
if done_already stub "$version" && [ -e build/stub/lib/libcudart.so.13 ]; then exit 0; fi
need gcc gcc
need nm binutils
if [ "$(cat build/stub/release 2>/dev/null)" != $release ]; then
	say "downloading ONNX Runtime's CUDA provider"
	fetch_wheel tools/setup/stub.txt --platform manylinux_2_28_x86_64 --python-version 3.11
	rm -rf build/stub
	unpack_wheel stub "onnxruntime/capi/libonnxruntime*" build/stub/lib
	echo $release >build/stub/release
	rm -rf build/wheels/stub
fi
for library in build/lib/*.so*; do
	case $library in *libonnxruntime*) ;; *) ln -sf "$root/$library" build/stub/lib/ ;; esac
done
python3 tools/gpu/stub.py build/stub --build
finished "$version"
