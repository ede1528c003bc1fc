#!/usr/bin/env bash
# Puts CUDA 11's headers into build/cuda/include and a stub libcuda.so for linking into build/cuda/lib: enough to compile
# with the build tag cuda on a machine without CUDA. The real libcuda.so.1 comes with NVIDIA's driver.
. "$(dirname "$0")/common.sh"
version=11.8.89
if done_already cuda "$version"; then exit 0; fi
need gcc gcc
say "downloading CUDA $version headers"
fetch_wheel tools/setup/cuda.txt --platform manylinux2014_x86_64
unpack_wheel cuda "nvidia/cuda_runtime/include/*.h" build/cuda/include
mkdir -p build/cuda/lib
# Every function that the header declares, under the name it has after the header's macros (cuMemGetInfo_v2).
gcc -E build/cuda/include/cuda.h | grep -o '\bcu[A-Z][A-Za-z0-9_]* *(' | tr -d ' (' | sort -u |
	sed 's/.*/void &(void) {}/' | gcc -shared -fPIC -w -Wl,-soname,libcuda.so.1 -x c - -o build/cuda/lib/libcuda.so
rm -rf build/wheels/cuda
finished "$version"
